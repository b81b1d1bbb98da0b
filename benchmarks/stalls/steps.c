/* How much CPU time does each turn of a server's event loop take? Preload it, and read the file of HEADRACE_STEPS.

   A turn is what happens between two waits for events: while it lasts, nobody is served. Its length in CPU time of the
   thread says how long that is on a machine that has nothing else to do, however busy this one is. The event loop is
   the first epoll of the main thread; other epolls of the process are asked, within a turn, without waiting. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct steps {                     /* as meter.py reads it */
    volatile uint64_t epoch;       /* set by the reader: begin again with the next turn */
    volatile uint64_t seen;        /* the epoch that the other figures belong to */
    volatile uint64_t turns;
    volatile uint64_t longest;     /* nanoseconds */
    volatile uint64_t total;
};

static struct steps *steps;
static int loop = -1;
static uint64_t began;

static uint64_t used(void)
{
    struct timespec moment;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &moment);
    return (uint64_t) moment.tv_sec * 1000000000u + (uint64_t) moment.tv_nsec;
}

static int is_loop(int descriptor)
{
    if (syscall(SYS_gettid) != getpid())
        return 0;
    if (loop < 0) {
        const char *path = getenv("HEADRACE_STEPS");
        int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        if (file < 0)
            return 0;
        steps = mmap(NULL, sizeof(*steps), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
        if (steps == MAP_FAILED)
            abort();
        loop = descriptor;
        began = used();
    }
    return descriptor == loop;
}

static void end_turn(void)
{
    uint64_t took = used() - began;
    steps->turns++;
    steps->total += took;
    if (took > steps->longest)
        steps->longest = took;
}

static void begin_turn(void)
{
    uint64_t epoch = steps->epoch;
    if (epoch != steps->seen) {
        steps->turns = steps->longest = steps->total = 0;
        steps->seen = epoch;
    }
    began = used();
}

int epoll_pwait(int descriptor, struct epoll_event *events, int most, int milliseconds, const sigset_t *mask)
{
    static int (*real)(int, struct epoll_event *, int, int, const sigset_t *);
    int is_turn = is_loop(descriptor), count;
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "epoll_pwait");
    if (is_turn)
        end_turn();
    count = real(descriptor, events, most, milliseconds, mask);
    if (is_turn)
        begin_turn();
    return count;
}

int epoll_wait(int descriptor, struct epoll_event *events, int most, int milliseconds)
{
    static int (*real)(int, struct epoll_event *, int, int);
    int is_turn = is_loop(descriptor), count;
    if (real == NULL)
        real = dlsym(RTLD_NEXT, "epoll_wait");
    if (is_turn)
        end_turn();
    count = real(descriptor, events, most, milliseconds);
    if (is_turn)
        begin_turn();
    return count;
}
