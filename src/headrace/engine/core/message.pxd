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


cdef inline int fill_message(Message *message, bytes subject, bytes reply, Py_ssize_t header_length, bytes body) except -1:
    """One that Python publishes: pointers into objects that the caller keeps. It has no `rest`."""
    message.subject = subject
    message.subject_length = <uint32_t> len(subject)
    message.reply = reply
    message.reply_length = <uint32_t> len(reply)
    message.header_length = header_length
    message.payload = body
    message.size = len(body)
    return 0
