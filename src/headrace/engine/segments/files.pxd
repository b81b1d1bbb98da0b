# The system calls of the store, each completed or failed: EINTR and short writes are dealt with here. All of them run
# without the GIL, and return 0 or an errno.

from libc.errno cimport EDQUOT, EFBIG, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.stdio cimport snprintf
from posix.fcntl cimport O_CLOEXEC, O_DIRECTORY, O_RDONLY, open
from posix.stat cimport fstat, struct_stat
from posix.types cimport off_t
from posix.unistd cimport close, fdatasync, fsync, ftruncate, pread, pwrite

cdef extern from "fcntl.h" nogil:
    int fallocate(int fd, int mode, off_t offset, off_t length)

cdef extern from "sys/random.h" nogil:
    Py_ssize_t getrandom(void *buffer, size_t length, unsigned int flags)

cdef enum:
    PATH_SIZE = 4096


cdef inline void segment_path(char *path, const char *directory, uint64_t number, const char *ending) noexcept nogil:
    """`path` has PATH_SIZE bytes; a directory that does not fit was refused when the log was made."""
    snprintf(path, PATH_SIZE, b"%s/%012llu.%s", directory, <unsigned long long> number, ending)


cdef inline int write_all(int fd, const char *data, size_t length, uint64_t offset) noexcept nogil:
    cdef Py_ssize_t done
    while length:
        done = pwrite(fd, data, length, offset)
        if done < 0:
            if errno == EINTR:
                continue
            return errno
        if done == 0:
            return EIO
        data += done
        length -= done
        offset += done
    return 0


cdef inline int read_all(int fd, char *data, size_t length, uint64_t offset, size_t *got) noexcept nogil:
    """Fewer bytes than asked for only at the end of the file."""
    cdef Py_ssize_t done
    got[0] = 0
    while got[0] < length:
        done = pread(fd, data + got[0], length - got[0], offset + got[0])
        if done < 0:
            if errno == EINTR:
                continue
            return errno
        if done == 0:
            break
        got[0] += done
    return 0


cdef inline int sync_data(int fd) noexcept nogil:
    # Never repeated after an error: the kernel may have dropped the pages, and a second call would say that all is well.
    return 0 if fdatasync(fd) == 0 else errno


cdef inline int truncate_file(int fd, uint64_t size) noexcept nogil:
    while ftruncate(fd, size) < 0:
        if errno != EINTR:
            return errno
    return 0


cdef inline int open_directory(const char *directory) noexcept nogil:
    return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)


cdef inline int sync_directory(const char *directory) noexcept nogil:
    cdef int fd = open_directory(directory)
    cdef int error = 0
    if fd < 0:
        return errno
    if fsync(fd) < 0:
        error = errno
    close(fd)
    return error


cdef inline int file_size(int fd, uint64_t *size) noexcept nogil:
    cdef struct_stat status
    if fstat(fd, &status) < 0:
        return errno
    size[0] = status.st_size
    return 0


cdef inline uint32_t random_salt() noexcept nogil:
    cdef uint32_t salt = 0
    while salt == 0:
        getrandom(&salt, sizeof(salt), 0)
    return salt


cdef inline bint may_pass(int error) noexcept nogil:
    """Whether what failed may work later: there was no space, no descriptor, no memory."""
    return error == ENOSPC or error == EDQUOT or error == EFBIG or error == EMFILE or error == ENFILE or error == ENOMEM
