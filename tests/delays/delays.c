/* Preloaded into Python processes: some system calls return late, some threads begin late, some lines of logs are
   written late.

   What a busy machine does now and then, this does all the time, and at other places in each run. Processes that are not
   Python (Java, nats-server) are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) \
    static __typeof__(name) *real; \
    if (real == NULL) real = (__typeof__(name) *) dlsym(RTLD_NEXT, #name)

static int is_python = -1;
static __thread uint64_t state;

static int applies(void) {
    if (is_python < 0) {
        char path[512];
        ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
        path[length > 0 ? length : 0] = 0;
        is_python = strstr(path, "python") != NULL;
    }
    return is_python;
}

static uint64_t random_number(void) {
    if (state == 0) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        state = ((uint64_t) now.tv_nsec * 2654435761u ^ (uint64_t) getpid() << 32 ^ (uintptr_t) &state) | 1;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* One call in `rarity` waits, for up to `milliseconds`. */
static void delay(unsigned rarity, unsigned milliseconds) {
    if (!applies() || random_number() % rarity) return;
    int before = errno;
    struct timespec time = {0, (long) (random_number() % (milliseconds * 1000000L))};
    nanosleep(&time, NULL);
    errno = before;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
    REAL(epoll_wait);
    int found = real(epoll, events, most, timeout);
    delay(60, 40);
    return found;
}

int epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout, const sigset_t *signals) {
    REAL(epoll_pwait);
    int found = real(epoll, events, most, timeout, signals);
    delay(60, 40);
    return found;
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout) {
    REAL(poll);
    int found = real(descriptors, count, timeout);
    delay(60, 40);
    return found;
}

int fdatasync(int descriptor) {
    REAL(fdatasync);
    delay(20, 60);
    return real(descriptor);
}

int fsync(int descriptor) {
    REAL(fsync);
    delay(20, 60);
    return real(descriptor);
}

/* Standard error, or a file whose name ends with .log or, once it is rotated, goes on after that. */
static int is_log(int descriptor) {
    char name[32], path[512];
    if (descriptor == 2) return 1;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(name, path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = 0;
    return strstr(path, ".log") != NULL;
}

static void delay_log(int descriptor) {
    /* The dice come first: few writes pay for the look at the name. */
    if (!applies() || random_number() % 5) return;
    int before = errno;
    if (is_log(descriptor)) delay(1, 60);
    errno = before;
}

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(write);
    delay_log(descriptor);
    return real(descriptor, data, size);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    REAL(writev);
    delay_log(descriptor);
    return real(descriptor, parts, count);
}

struct thread { void *(*work)(void *); void *argument; };

static void *begin(void *given) {
    struct thread thread = *(struct thread *) given;
    free(given);
    delay(3, 60);
    return thread.work(thread.argument);
}

int pthread_create(pthread_t *made, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (real == NULL) *(void **) &real = dlsym(RTLD_NEXT, "pthread_create");
    if (!applies()) return real(made, attributes, work, argument);
    struct thread *thread = malloc(sizeof(*thread));
    if (thread == NULL) return EAGAIN;
    thread->work = work;
    thread->argument = argument;
    int error = real(made, attributes, begin, thread);
    if (error) free(thread);
    return error;
}
