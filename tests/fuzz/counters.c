/* The table of counters that all modules of the engine's fuzz build share; preloaded behind libFuzzer. See trace.c. */

#include <stdint.h>

enum { COUNTERS = 1 << 16 };

uint8_t headrace_fuzz_counters[COUNTERS];
static uintptr_t edges[COUNTERS][2];    /* address and flags of each; libFuzzer only wants there to be as many */

void __sanitizer_cov_8bit_counters_init(uint8_t *first, uint8_t *end);
void __sanitizer_cov_pcs_init(const uintptr_t *first, const uintptr_t *end);

__attribute__((constructor)) static void introduce(void) {
    for (uintptr_t k = 0; k < COUNTERS; k++) edges[k][0] = k + 1;
    __sanitizer_cov_8bit_counters_init(headrace_fuzz_counters, headrace_fuzz_counters + COUNTERS);
    __sanitizer_cov_pcs_init(edges[0], edges[COUNTERS]);
}
