/* Preloaded by the tests of the log: makes the system calls of the store fail, or kills the process at one of them.
 *
 * arm_kill(n)        the process dies at the n-th call that changes a file, before it is made
 * arm_sync(n)        from the n-th on, every fsync and fdatasync fails with EIO
 * arm_write(n, e)    from the n-th on, every write fails with e
 * arm_short(1)       every write is cut short, and every third one is interrupted before it begins
 * disarm()           as usual again
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static long kill_at, sync_at, write_at, short_writes, calls, syncs, writes;
static int write_error;

void arm_kill(long n) { kill_at = n; calls = 0; }
void arm_sync(long n) { sync_at = n; syncs = 0; }
void arm_write(long n, int error) { write_at = n; write_error = error; writes = 0; }
void arm_short(long on) { short_writes = on; }
void disarm(void) { kill_at = sync_at = write_at = short_writes = 0; }

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void count_call(void) {
    if (kill_at && __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) == kill_at) kill(getpid(), SIGKILL);
}

static int sync_fails(void) {
    if (!sync_at || __atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST) < sync_at) return 0;
    errno = EIO;
    return 1;
}

int fsync(int fd) { REAL(fsync); count_call(); return sync_fails() ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); count_call(); return sync_fails() ? -1 : real(fd); }

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    REAL(pwrite);
    count_call();
    long n = __atomic_add_fetch(&writes, 1, __ATOMIC_SEQ_CST);
    if (write_at && n >= write_at) { errno = write_error; return -1; }
    if (short_writes) {
        if (n % 3 == 0) { errno = EINTR; return -1; }
        length = length / 2 + 1;
    }
    return real(fd, data, length, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return pwrite(fd, data, length, offset); }

int ftruncate(int fd, off_t size) { REAL(ftruncate); count_call(); return real(fd, size); }
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }
int rename(const char *from, const char *to) { REAL(rename); count_call(); return real(from, to); }
int unlink(const char *path) { REAL(unlink); count_call(); return real(path); }

int fallocate(int fd, int mode, off_t offset, off_t length) {
    REAL(fallocate);
    count_call();
    if (write_at && writes + 1 >= write_at) { errno = write_error; return -1; }
    return real(fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }

static int open_as(const char *path, int flags, mode_t mode) {
    static int (*real)(const char *, int, ...);
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    if (flags & O_CREAT) count_call();
    return real(path, flags, mode);
}
int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_as(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_as(path, flags, mode);
}
