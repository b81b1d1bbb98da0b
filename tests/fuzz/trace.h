/* Included in every module of the engine's fuzz build: tells libFuzzer which code an input reached.

   GCC calls __sanitizer_cov_trace_pc() at every edge (-fsanitize-coverage=trace-pc), which libFuzzer no longer listens to;
   it wants a table with a counter for each edge. That table is in counters.c, one for all modules. An edge finds its
   counter by its place in the module, not by its address, so that a run with the same seed does the same again.

   No header is included here: Python.h has to be the first. */

extern unsigned char headrace_fuzz_counters[1 << 16];
extern const char __dso_handle;

#define HEADRACE_HIDDEN \
    __attribute__((visibility("hidden"), no_sanitize_coverage, no_sanitize("address", "undefined")))

HEADRACE_HIDDEN void __sanitizer_cov_trace_pc(void) {
    unsigned long place = (unsigned long)__builtin_return_address(0) - (unsigned long)&__dso_handle;
    headrace_fuzz_counters[((place + ((unsigned long)HEADRACE_MODULE << 32)) * 0x9E3779B97F4A7C15ul) >> 48]++;
}

/* Comparisons of integers go to libFuzzer; it does not know those of floating-point numbers. */
HEADRACE_HIDDEN void __sanitizer_cov_trace_cmpf(float one, float other) { (void)one, (void)other; }
HEADRACE_HIDDEN void __sanitizer_cov_trace_cmpd(double one, double other) { (void)one, (void)other; }
