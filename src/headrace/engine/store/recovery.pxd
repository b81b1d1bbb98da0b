# Opening a directory of segments. The theory is at the top of recovery.pyx.

from headrace.engine.store.store cimport Store

cdef list recover(Store store)
cdef int delete_files(str directory) except -1
