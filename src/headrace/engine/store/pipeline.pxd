# From pending to on disk, and what follows. The theory is at the top of pipeline.pyx.

cimport cython

from headrace.engine.store.chores cimport Chores
from headrace.engine.store.committer cimport Committer, Job, JobOwner
from headrace.engine.store.rollback cimport Rollback
from headrace.engine.store.store cimport Store
from headrace.engine.store.writer cimport Writer

@cython.final
cdef class Pipeline(JobOwner):
    cdef Store store
    cdef Writer writer
    cdef Chores chores
    cdef Rollback rollback
    cdef object on_committed       # called when a group is on disk; None: nobody listens
    cdef bint opened               # the store holds what is in the files

    cdef int commit(self) except -1
    cdef int when_committed(self, object callback) except -1
    cdef bint is_writable(self) except -1
    cdef int start_chore(self) except -1
    cdef int close(self) except -1
    cdef int abandon(self) except -1
    cdef int _commit_memory(self) except -1
    cdef int _committed(self) except -1
    cdef int _finish_chore(self, Job *job) except -1
    cdef int _fail(self, int error, bint final) except -1
    cdef int _roll_back(self) except -1
    cdef int _rolled_back(self) except -1
    cdef int _wait_for_jobs(self) except -1
    cdef void _reset(self) noexcept
