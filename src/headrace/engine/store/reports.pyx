"""What a log reports to Python: damage, unreadable files, chores that failed; and calling the waiting callbacks.

Damage is a wrong checksum, and is listed once per message. A file that cannot be read is an error of the operating system:
it is reported once, until it can be read again.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.segments.segment cimport seq_at

cdef Py_ssize_t MOST_DAMAGES = 100  # that are listed


cdef class Reports:
    def __cinit__(self):
        self.damages = []
        self.damaged = set()

    cdef int warn(self, str line) except -1:
        if self.on_warning is not None:
            self.on_warning(line)
        return 0

    cdef int add_damages(self, list lines) except -1:
        """Take over what recovery found damaged."""
        self.damages.extend(lines[:max(MOST_DAMAGES - len(self.damages), 0)])
        return 0

    cdef int note_damage(self, Segment *segment, uint32_t place) except -1:
        """Report a damaged record, once. It stays where it is: its bytes may be readable again, or elsewhere."""
        cdef uint64_t seq = seq_at(segment, place)
        segment.damaged = True
        if seq in self.damaged or len(self.damages) >= MOST_DAMAGES:
            return 0
        self.damaged.add(seq)
        line = f"segment {segment.number}: message {seq} at byte {segment.offsets[place]} is damaged"
        if len(self.damages) == MOST_DAMAGES - 1:
            line += "; further damage is not listed"
        self.damages.append(line)
        return self.warn(line)

    cdef int note_read_failure(self, uint64_t seq, object error) except -1:
        """Report that a file cannot be read, once until it can."""
        cdef bint known = self.read_failure is not None
        self.unread_seq = seq
        self.read_failure = f"message {seq}: {error.strerror if isinstance(error, OSError) else 'out of memory'}"
        return 0 if known else self.warn(self.read_failure)

    cdef void note_read(self, uint64_t seq) noexcept:
        """Note that its record was read, or found damaged."""
        if self.read_failure is not None and self.unread_seq == seq:
            self.read_failure = None


cdef int call_all(list callbacks, object failure) except -1:
    """Call each with the failure, or None; the first exception is raised after the last call."""
    error = None
    for callback in callbacks:
        try:
            callback(failure)
        except Exception as raised:
            error = error or raised
    if error is not None:
        raise error
    return 0
