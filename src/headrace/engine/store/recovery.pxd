# Opening a directory of segments. The theory is at the top of recovery.pyx.

from headrace.engine.store.log cimport Log

cdef list recover(Log log)
