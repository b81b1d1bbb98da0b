# What happens to a group that could not be written. The theory is at the top of rollback.pyx.

cimport cython

from headrace.engine.store.committer cimport Committer, Job
from headrace.engine.store.store cimport Store

@cython.final
cdef class Rollback:
    cdef Store store
    cdef Job *job
    cdef bint due                  # memory does not agree with the disk yet
    cdef Store replacement         # filled from the files by a thread; None: no thread does that
    cdef list found                # damage, by that thread,
    cdef str error                 # or why it could not
    cdef list waiting              # callbacks that get the failure when memory agrees with the disk

    cdef int start(self, Committer committer) except -1
    cdef void read_files(self) noexcept
    cdef bint finish(self) except -1
    cdef list take_callbacks(self)
