# From sockets to the parser. The theory is at the top of reader.pyx.

from headrace.engine.core.link cimport Link
from headrace.engine.core.parser cimport Parser
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick

cdef class Reader:
    cdef Tick tick
    cdef Publishers publishers
    cdef Parser parser
    cdef char *buffer              # what is read, for all links: headroom for an unfinished frame, then READ_SIZE
    cdef Py_ssize_t headroom

    cdef int set_control_line_limit(self, Py_ssize_t limit) except -1
    cdef int readable(self, Link link) except -1
    cdef int read(self, Link link) except -1
    cdef int parse_partial(self, Link link) except -1
    cdef int _read_long_frame(self, Link link) except -1
    cdef int _look_inside(self, Link link) except -1
    cdef int _nothing_read(self, Link link, Py_ssize_t count) except -1
    cdef int _feed(self, Link link, char *start, char *end) except -1
    cdef int _keep_partial(self, Link link, const char *start, const char *end) except -1
