# A log as its files are at the moment. The theory is at the top of snapshot.pyx.

cimport cython

from headrace.engine.store.log_view cimport LogView

@cython.final
cdef class Snapshot(LogView):
    cdef readonly list damages     # one line for each damage found on opening
