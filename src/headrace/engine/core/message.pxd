# A message on its way from its publisher to its receivers: pointers into the buffer that it was read into.

from libc.stdint cimport uint32_t

cdef struct Message:
    const char *subject
    const char *reply
    const char *rest               # what follows the subject and the sid in a MSG or HMSG, to the end of the frame
    const char *payload            # the headers, then the body
    uint32_t subject_length
    uint32_t reply_length          # 0: no reply
    Py_ssize_t rest_length
    Py_ssize_t header_length       # 0: no headers
    Py_ssize_t size                # headers and body
