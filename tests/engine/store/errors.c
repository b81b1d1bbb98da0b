/* Preloaded by the tests of errors: makes some system calls of the store fail, counts others, or holds them up.
 *
 * fail_reads(n, e)        the n-th pread from now on, and all after it, fail with e; n = 0: none does
 * fail_directories(1)     every fsync of a directory that follows the rename of a .log.tmp fails with EIO
 * fail_temporary(e)       every write to a file whose name ends in .tmp fails with e
 * fail_writes(e)          every other write, too
 * hold_renames(1)         a rename waits until hold_renames(0)
 *
 * reads_so_far()          preads,
 * reads_here()            and those of the calling thread
 * syncs_so_far()          fdatasyncs
 * temporary_so_far()      bytes written to files whose name ended in .log.tmp
 * renames_waiting()       how many renames are being held
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST = 4096 };
static long fail_read_at, reads, syncs, temporary_bytes, waiting;
static __thread long own_reads;
static __thread int renamed;
static int read_error, temporary_error, write_error, directories_fail, holding;
static char is_temporary[MOST];

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int ends_in_log_tmp(const char *path) {
    size_t length = strlen(path);
    return length > 8 && strcmp(path + length - 8, ".log.tmp") == 0;
}

void fail_reads(long n, int error) { fail_read_at = n ? __atomic_load_n(&reads, __ATOMIC_SEQ_CST) + n : 0; read_error = error; }
void fail_directories(int on) { directories_fail = on; }
void fail_temporary(int error) { temporary_error = error; }
void fail_writes(int error) { write_error = error; }
void hold_renames(int on) { __atomic_store_n(&holding, on, __ATOMIC_SEQ_CST); }
long reads_so_far(void) { return __atomic_load_n(&reads, __ATOMIC_SEQ_CST); }
long reads_here(void) { return own_reads; }
long syncs_so_far(void) { return __atomic_load_n(&syncs, __ATOMIC_SEQ_CST); }
long temporary_so_far(void) { return __atomic_load_n(&temporary_bytes, __ATOMIC_SEQ_CST); }
long renames_waiting(void) { return __atomic_load_n(&waiting, __ATOMIC_SEQ_CST); }

ssize_t pread(int fd, void *data, size_t length, off_t offset) {
    REAL(pread);
    long n = __atomic_add_fetch(&reads, 1, __ATOMIC_SEQ_CST);
    own_reads++;
    if (fail_read_at && n >= fail_read_at) { errno = read_error; return -1; }
    return real(fd, data, length, offset);
}
ssize_t pread64(int fd, void *data, size_t length, off_t offset) { return pread(fd, data, length, offset); }

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    REAL(pwrite);
    int temporary = fd < MOST && is_temporary[fd];
    int error = temporary ? temporary_error : write_error;
    if (error) { errno = error; return -1; }
    if (temporary) __atomic_add_fetch(&temporary_bytes, length, __ATOMIC_SEQ_CST);
    return real(fd, data, length, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) { return pwrite(fd, data, length, offset); }

int fallocate(int fd, int mode, off_t offset, off_t length) {
    REAL(fallocate);
    if (write_error) { errno = write_error; return -1; }
    return real(fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }

int fsync(int fd) {
    REAL(fsync);
    struct stat status;
    int follows = renamed;
    renamed = 0;
    if (directories_fail && follows && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) { errno = EIO; return -1; }
    return real(fd);
}
int fdatasync(int fd) { REAL(fdatasync); __atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST); return real(fd); }

int rename(const char *from, const char *to) {
    REAL(rename);
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&holding, __ATOMIC_SEQ_CST)) usleep(1000);
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    renamed = ends_in_log_tmp(from);
    return real(from, to);
}

static int note(const char *path, int fd) {
    if (fd >= 0 && fd < MOST) is_temporary[fd] = ends_in_log_tmp(path);
    return fd;
}
static int open_as(const char *path, int flags, mode_t mode) {
    static int (*real)(const char *, int, ...);
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    return note(path, real(path, flags, mode));
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
