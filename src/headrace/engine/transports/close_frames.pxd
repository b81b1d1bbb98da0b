# Close frames: RFC 6455, section 7.4.

cdef bytes encode_close(int status, bytes text)
cdef bytes goodbye_for(object reason)
