"""Messages of a stream, straight from its files into Arrow columns: what columns.pyx does with frames of a server.

A row costs a look at its place, the checksum of its record and the copies into the columns. The file is read in stretches
that stay in the processor's cache until all of their rows are made (row read-store of benchmarks.spark).
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.client.columns cimport Columns
from headrace.client.frames cimport READY
from headrace.engine.basics.filters cimport Filter
from headrace.engine.segments.segment cimport Segment, next_place, seq_at
from headrace.engine.segments.windows cimport Record, Window
from headrace.engine.store.snapshot cimport Snapshot
from headrace.engine.store.store cimport Store

cdef size_t STRETCH = 256 * 1024


@cython.final
cdef class StoredRows:
    """The messages of a snapshot that pass a filter, from `first` to `last`."""

    cdef Snapshot snapshot
    cdef Filter filter
    cdef Window window
    cdef uint64_t last
    cdef readonly uint64_t next_seq    # everything before it is in the columns, or was passed over
    cdef readonly bint damaged         # the message next_seq is: `pass_over` it, or look in another snapshot

    def __cinit__(self, Snapshot snapshot not None, Filter filter not None, uint64_t first, uint64_t last):
        self.snapshot = snapshot
        self.filter = filter
        self.window = Window(STRETCH)
        self.next_seq, self.last = first, last

    def fill(self, Columns columns not None):
        """Add rows until the columns are full, a record is damaged or the range is complete.

        Raises OSError; what is in the columns then stays, and next_seq is right.
        """
        cdef Store store = self.snapshot.store
        cdef Segment *segment
        cdef uint64_t place
        cdef uint32_t k
        if columns.prepare() != READY:
            raise MemoryError
        self.damaged = False
        if self.next_seq < store.first_seq:
            self.next_seq = store.first_seq
        k = store.segment_of(self.next_seq) if store.segment_count else 0
        while k < store.segment_count and self.next_seq <= self.last:
            segment = store.segments[k]
            place = next_place(segment, self.next_seq)
            while place < segment.count:
                if segment.offsets[place]:
                    if seq_at(segment, place) > self.last:
                        break
                    self.next_seq = seq_at(segment, place)
                    if not self._add(columns, segment, <uint32_t> place):
                        self.damaged = True
                        return
                    self.next_seq += 1
                    if columns.rows >= columns.batch_rows or columns.size() >= columns.batch_bytes:
                        return
                place += 1
            k += 1
        if self.next_seq <= self.last:
            self.next_seq = self.last + 1

    cdef bint _add(self, Columns columns, Segment *segment, uint32_t place) except -1:
        """False: it is damaged."""
        cdef Record record
        if not self.snapshot.store.load(self.window, segment, place, &record):
            return False
        if not self.filter.accepts(record.subject, record.subject_length):
            return True
        if columns.add_row(<int64_t> record.seq, record.time, record.subject, record.subject_length, record.headers,
                           record.header_length, record.payload, record.payload_length) != READY:
            raise MemoryError
        return True

    def pass_over(self):
        """Continue behind a message that is damaged."""
        self.next_seq += 1
