# What a log and a snapshot of one have in common. The theory is at the top of log_view.pyx.

from headrace.engine.store.store cimport Store

cdef class LogView:
    cdef Store store               # the messages
