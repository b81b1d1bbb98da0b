/* Preloaded by the tests of the store: counts its calls, makes chosen ones fail, or kills the process at one of them.
 *
 * fault_watch(path)                    only files below this path are concerned (at first: all)
 * fault_begin()                        counts from 0 on; nothing fails
 * fault_arm(kind, first, last, error)  from the first to the last (counted since fault_begin), calls of a kind fail with
 *                                      this error; 0: reads and writes are cut short
 * fault_kill(n)                        the process dies at the n-th call that changes a file, before it is made
 * fault_count(kind)                    calls of a kind since fault_begin; -1: those that change a file
 * fault_hits()                         calls that were made to fail since fault_begin
 * fault_disarm()                       as usual again
 * fault_forward(seconds)               the monotonic clock is that much ahead from now on
 *
 * Memory counts where the engine's own code asks for it: an interpreter that finds none could not tell us anything.
 * Instead of these calls the environment can say the same to a whole server: FAULT_WATCH=path, and FAULT_FILE=path of a
 * file of "kind first last error", or "kill n", that is looked for at every call, and counts from its appearance on.
 * FAULT_COUNTS=path of a file of zeros makes the counts visible to others: one long per kind, those that change a file,
 * and those that were made to fail.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, RENAME, UNLINK, TRUNCATE, ALLOCATE, SYNC, SYNC_DIRECTORY, STAT, MKDIR, RMDIR, LIST, MEMORY, KINDS };

#define MOST_FILES 65536
#define MOST_MODULES 128

static char root[PATH_MAX];
static char watched[MOST_FILES];
static long own_counts[KINDS + 2], *counts = own_counts;   /* and behind those of the kinds: */
#define CHANGES counts[KINDS]
#define HITS counts[KINDS + 1]
static long first_call[KINDS], last_call[KINDS], kill_at;
static int errors[KINDS], armed;
static double seconds_ahead;
static struct { char *start, *end; } modules[MOST_MODULES];
static int module_count;

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

void fault_watch(const char *path) { snprintf(root, sizeof root, "%s", path); }
void fault_disarm(void) { memset(first_call, 0, sizeof first_call); kill_at = 0; armed = 0; }
void fault_begin(void) { fault_disarm(); memset(counts, 0, sizeof own_counts); armed = 1; }
void fault_kill(long n) { kill_at = n; armed = 1; }
long fault_count(int kind) { return kind < 0 ? CHANGES : counts[kind]; }
long fault_hits(void) { return HITS; }
void fault_forward(double seconds) { seconds_ahead += seconds; }
void fault_arm(int kind, long first, long last, int error) {
    first_call[kind] = first;
    last_call[kind] = last;
    errors[kind] = error;
    armed = 1;
}

/* -- what the environment says ---------------------------------------------------------------------------------- */

static const char *fault_file;

__attribute__((constructor)) static void read_environment(void) {
    const char *path = getenv("FAULT_WATCH");
    if (path) fault_watch(path);
    fault_file = getenv("FAULT_FILE");
    path = getenv("FAULT_COUNTS");
    if (path) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        void *shared = mmap(NULL, sizeof own_counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared != MAP_FAILED) counts = shared;
        close(fd);
    }
}

static void look_for_file(void) {
    static int (*real)(const char *, int, ...);
    char text[256];
    int fd, kind, error;
    long first, last, length;
    if (!fault_file || armed) return;
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    int before = errno;
    fd = real(fault_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) { errno = before; return; }
    static ssize_t (*real_read)(int, void *, size_t);
    if (!real_read) real_read = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    length = real_read(fd, text, sizeof text - 1);
    close(fd);
    errno = before;
    if (length <= 0) return;
    text[length] = 0;
    fault_begin();
    if (sscanf(text, "kill %ld", &first) == 1) fault_kill(first);
    else if (sscanf(text, "%d %ld %ld %d", &kind, &first, &last, &error) == 4) fault_arm(kind, first, last, error);
}

/* -- what happens to a call --------------------------------------------------------------------------------------- */

/* 0: go on. 1: fail, errno is set. 2: cut it short. */
static int meets(enum kind kind, int changing) {
    look_for_file();
    if (!armed) return 0;
    if (changing && __atomic_add_fetch(&CHANGES, 1, __ATOMIC_SEQ_CST) == kill_at) kill(getpid(), SIGKILL);
    long n = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_SEQ_CST);
    if (!first_call[kind] || n < first_call[kind] || n > last_call[kind]) return 0;
    __atomic_add_fetch(&HITS, 1, __ATOMIC_SEQ_CST);
    if (!errors[kind]) return 2;
    errno = errors[kind];
    return 1;
}

static int is_below(const char *path) {
    size_t length = strlen(root);
    return length == 0 ? 1 : strncmp(path, root, length) == 0;
}
static int is_watched(int fd) { return !root[0] || (fd >= 0 && fd < MOST_FILES && watched[fd]); }
static int note(int fd, int concerned) {
    if (fd >= 0 && fd < MOST_FILES) watched[fd] = concerned;
    return fd;
}

/* -- files ---------------------------------------------------------------------------------------------------------- */

static int open_as(int at, const char *path, int flags, mode_t mode) {
    static int (*real)(int, const char *, int, ...);
    if (!real) real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
    int concerned = path[0] == '/' || at == AT_FDCWD ? is_below(path) : is_watched(at);
    if (concerned && meets(OPEN, flags & O_CREAT)) return -1;
    return note(real(at, path, flags, mode), concerned);
}
#define OPEN_AS(at, name, ...) int name(__VA_ARGS__, ...) { \
    va_list arguments; \
    va_start(arguments, flags); \
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments); \
    return open_as(at, path, flags, mode); \
}
OPEN_AS(AT_FDCWD, open, const char *path, int flags)
OPEN_AS(AT_FDCWD, open64, const char *path, int flags)
OPEN_AS(at, openat, int at, const char *path, int flags)
OPEN_AS(at, openat64, int at, const char *path, int flags)
int close(int fd) { REAL(close); note(fd, 0); return real(fd); }

#define READ_AS(name, parameters, ...) ssize_t name parameters { \
    REAL(name); \
    int met = is_watched(fd) ? meets(READ, 0) : 0; \
    if (met == 1) return -1; \
    if (met == 2) length = length / 2 + (length == 1); \
    return real(__VA_ARGS__); \
}
READ_AS(read, (int fd, void *data, size_t length), fd, data, length)
READ_AS(pread, (int fd, void *data, size_t length, off_t offset), fd, data, length, offset)
READ_AS(pread64, (int fd, void *data, size_t length, off64_t offset), fd, data, length, offset)

#define WRITE_AS(name, parameters, ...) ssize_t name parameters { \
    REAL(name); \
    int met = is_watched(fd) ? meets(WRITE, 1) : 0; \
    if (met == 1) return -1; \
    if (met == 2) length = length / 2 + (length == 1); \
    return real(__VA_ARGS__); \
}
WRITE_AS(write, (int fd, const void *data, size_t length), fd, data, length)
WRITE_AS(pwrite, (int fd, const void *data, size_t length, off_t offset), fd, data, length, offset)
WRITE_AS(pwrite64, (int fd, const void *data, size_t length, off64_t offset), fd, data, length, offset)

static int is_directory(int fd) {
    static int (*real)(int, struct stat *);
    struct stat status;
    if (!real) real = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
    return real && real(fd, &status) == 0 && S_ISDIR(status.st_mode);
}
static int sync_meets(int fd) { return is_watched(fd) && meets(is_directory(fd) ? SYNC_DIRECTORY : SYNC, 1); }
int fsync(int fd) { REAL(fsync); return sync_meets(fd) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return sync_meets(fd) ? -1 : real(fd); }

int fstat(int fd, struct stat *status) { REAL(fstat); return is_watched(fd) && meets(STAT, 0) ? -1 : real(fd, status); }
int fstat64(int fd, struct stat64 *status) {
    REAL(fstat64);
    return is_watched(fd) && meets(STAT, 0) ? -1 : real(fd, status);
}

int ftruncate(int fd, off_t size) { REAL(ftruncate); return is_watched(fd) && meets(TRUNCATE, 1) ? -1 : real(fd, size); }
int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    return is_watched(fd) && meets(TRUNCATE, 1) ? -1 : real(fd, size);
}
int fallocate(int fd, int mode, off_t offset, off_t length) {
    REAL(fallocate);
    return is_watched(fd) && meets(ALLOCATE, 1) ? -1 : real(fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    REAL(fallocate64);
    return is_watched(fd) && meets(ALLOCATE, 1) ? -1 : real(fd, mode, offset, length);
}

/* -- names ---------------------------------------------------------------------------------------------------------- */

int rename(const char *from, const char *to) { REAL(rename); return is_below(to) && meets(RENAME, 1) ? -1 : real(from, to); }
int unlink(const char *path) { REAL(unlink); return is_below(path) && meets(UNLINK, 1) ? -1 : real(path); }
int unlinkat(int at, const char *path, int flags) {      /* shutil.rmtree, relative to a directory that is watched */
    REAL(unlinkat);
    int concerned = path[0] == '/' ? is_below(path) : is_watched(at);
    return concerned && meets(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 1) ? -1 : real(at, path, flags);
}
int mkdir(const char *path, mode_t mode) { REAL(mkdir); return is_below(path) && meets(MKDIR, 1) ? -1 : real(path, mode); }
int rmdir(const char *path) { REAL(rmdir); return is_below(path) && meets(RMDIR, 1) ? -1 : real(path); }
DIR *opendir(const char *path) { REAL(opendir); return is_below(path) && meets(LIST, 0) ? NULL : real(path); }

/* -- time and memory ------------------------------------------------------------------------------------------------ */

int clock_gettime(clockid_t clock, struct timespec *moment) {
    REAL(clock_gettime);
    int result = real(clock, moment);
    if (clock == CLOCK_MONOTONIC) moment->tv_sec += (time_t)seconds_ahead;
    return result;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size;
    (void)unused;
    if (!strstr(info->dlpi_name, "/headrace/engine/") || module_count == MOST_MODULES) return 0;
    for (int k = 0; k < info->dlpi_phnum; k++)
        if (info->dlpi_phdr[k].p_type == PT_LOAD && info->dlpi_phdr[k].p_flags & PF_X) {
            modules[module_count].start = (char *)info->dlpi_addr + info->dlpi_phdr[k].p_vaddr;
            modules[module_count].end = modules[module_count].start + info->dlpi_phdr[k].p_memsz;
            module_count++;
        }
    return 0;
}

/* Call it when everything is imported. */
void fault_find_engine(void) { module_count = 0; dl_iterate_phdr(note_module, NULL); }

static int memory_meets(const void *caller) {
    if (!armed || !module_count) return 0;
    for (int k = 0; k < module_count; k++)
        if ((const char *)caller >= modules[k].start && (const char *)caller < modules[k].end) return meets(MEMORY, 0);
    return 0;
}

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t size) { return memory_meets(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return memory_meets(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
    return memory_meets(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size);
}
