"""What a consumer has delivered and nobody has acknowledged yet: sequence -> (consumer sequence, time of delivery).

Messages are delivered in the order of their sequences, and nearly all of them are acknowledged in that order:

    deliveries   .  .  x  7  8  x  10 11 12            .: free, x: acknowledged after 7 was delivered
                          ^first              ^end

So an array is enough: adding goes to its end, and the one to remove is usually next to the one removed before;
otherwise it is found by halving. What has become free at the front is used again when the end is reached. That is a third
of what a pull with acknowledgements costs with a dict and a tuple per message (row stream-pull of the benchmark),
in an eighth of the memory.

What does not fit in this order, mostly messages that were delivered again, is in a dict. Both are in the order of
time, and so is a walk over all.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport UINT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

DEF FEWEST = 16
DEF FEW = 1024                       # 24 KB, which a consumer keeps when nothing is pending
cdef uint64_t GONE = UINT64_MAX


cdef class Pending:
    """See pending.pyi."""

    def __cinit__(self, *_):
        self.moved = {}

    def __init__(self, entries=None):
        if entries is not None:
            for seq, entry in entries.items():
                self[seq] = entry

    def __dealloc__(self):
        free(self.deliveries)

    @staticmethod
    def from_numbers(list numbers not None):
        cdef Pending made = Pending()
        cdef Py_ssize_t at
        if len(numbers) % 3:
            raise ValueError('each of them has three numbers')
        for at in range(0, len(numbers), 3):
            made[numbers[at]] = (numbers[at + 1], numbers[at + 2])
        return made

    # -- what the engine does for each message

    cdef int add(self, uint64_t seq, uint64_t consumer_seq, int64_t time) except -1:
        cdef Delivery *added
        if consumer_seq == GONE:
            raise OverflowError('the consumer sequence is too large')
        if self.end > self.first and seq <= self.deliveries[self.end - 1].seq:
            if (at := self._find(seq)) >= 0:
                self._remove_at(at)
            self.moved.pop(seq, None)            # it goes to the end
            self.moved[seq] = (consumer_seq, time)
            self.changes += 1
            return 0
        if self.end == self.capacity:
            self._make_room()
        if self.moved:
            self.moved.pop(seq, None)
        added = &self.deliveries[self.end]
        added.seq = seq
        added.consumer_seq = consumer_seq
        added.time = time
        self.end += 1
        self.in_order += 1
        self.changes += 1
        return 0

    cdef bint remove(self, uint64_t seq, uint64_t *consumer_seq) except -1:
        """Returns False if it is not pending."""
        cdef Py_ssize_t at = self._find(seq)
        if at >= 0:
            consumer_seq[0] = self.deliveries[at].consumer_seq
            self._remove_at(at)
            return True
        if not self.moved:
            return False
        entry = self.moved.pop(seq, None)
        if entry is None:
            return False
        consumer_seq[0] = entry[0]
        self.changes += 1
        return True

    cdef Py_ssize_t _find(self, uint64_t seq) noexcept:
        """Where it is among the deliveries, -1 if it is not."""
        cdef Py_ssize_t at = self.next
        if not (self.first <= at < self.end and self.deliveries[at].seq == seq):
            at = self._first_from(seq)
        if at < self.end and self.deliveries[at].seq == seq and self.deliveries[at].consumer_seq != GONE:
            return at
        return -1

    cdef Py_ssize_t _first_from(self, uint64_t seq) noexcept:
        """Where the first is that has this sequence or a higher one."""
        cdef Py_ssize_t low = self.first, high = self.end, middle
        while low < high:
            middle = (low + high) // 2
            if self.deliveries[middle].seq < seq:
                low = middle + 1
            else:
                high = middle
        return low

    cdef int _remove_at(self, Py_ssize_t at) except -1:
        self.deliveries[at].consumer_seq = GONE
        self.in_order -= 1
        self.next = at + 1
        self.changes += 1
        if self.in_order == 0:
            self.first = self.end = self.next = 0
            self._shrink(FEW)
        elif at == self.first:
            while self.first < self.end and self.deliveries[self.first].consumer_seq == GONE:
                self.first += 1
        return 0

    cdef int _make_room(self) except -1:
        """Use what is free again, if that is at least half, and otherwise take twice as much.

        If nearly all of it is free, give most of it back.
        """
        cdef Py_ssize_t at, kept = 0
        if 2 * self.in_order > self.capacity or self.capacity == 0:
            return self._grow(max(2 * self.capacity, FEWEST))
        for at in range(self.first, self.end):
            if self.deliveries[at].consumer_seq != GONE:
                self.deliveries[kept] = self.deliveries[at]
                kept += 1
        self.first = self.next = 0
        self.end = kept
        if 8 * kept < self.capacity:
            self._shrink(max(2 * kept, FEW))
        return 0

    cdef int _grow(self, Py_ssize_t capacity) except -1:
        cdef void *grown = realloc(self.deliveries, capacity * sizeof(Delivery))
        if grown == NULL:
            raise MemoryError
        self.deliveries = <Delivery *> grown
        self.capacity = capacity
        return 0

    cdef int _shrink(self, Py_ssize_t capacity) noexcept:
        """Reduce the capacity to this if it is larger. If there is no memory to do it, keep what there is."""
        cdef void *shrunk
        if capacity < self.capacity:
            shrunk = realloc(self.deliveries, capacity * sizeof(Delivery))
            if shrunk != NULL:
                self.deliveries = <Delivery *> shrunk
                self.capacity = capacity
        return 0

    # -- what Python does

    def __len__(self):
        return self.in_order + len(self.moved)

    def __sizeof__(self):
        return object.__sizeof__(self) + self.capacity * sizeof(Delivery)

    def __contains__(self, seq):
        return 0 <= seq <= UINT64_MAX and self._find(seq) >= 0 or seq in self.moved

    def __getitem__(self, seq):
        cdef Py_ssize_t at = self._find(seq)
        if at >= 0:
            return self.deliveries[at].consumer_seq, self.deliveries[at].time
        return self.moved[seq]

    def get(self, seq):
        return self[seq] if seq in self else None

    def __setitem__(self, seq, entry):
        consumer_seq, time = entry
        self.add(seq, consumer_seq, time)

    def pop(self, seq):
        cdef uint64_t consumer_seq
        entry = self.get(seq)
        if entry is not None:
            self.remove(seq, &consumer_seq)
        return entry

    def clear(self):
        self.first = self.end = self.next = self.in_order = 0
        self.moved.clear()
        self.changes += 1
        self._shrink(FEW)

    def copy(self):
        cdef Pending made = Pending()
        cdef Py_ssize_t length = self.end - self.first
        if length:
            made._grow(length)
            memcpy(made.deliveries, self.deliveries + self.first, length * sizeof(Delivery))
        made.end = length
        made.in_order = self.in_order
        made.moved = self.moved.copy()
        return made

    def __iter__(self):
        for seq, _ in self.items():
            yield seq

    def items(self):
        cdef uint64_t changes = self.changes
        cdef Py_ssize_t at = self.first
        cdef Delivery delivery
        others = iter(self.moved.items())
        other = next(others, None)
        while True:
            if self.changes != changes:
                raise RuntimeError('what is pending was changed during a walk')
            if at < self.end and self.deliveries[at].consumer_seq == GONE:
                at += 1
                continue
            if other is not None and (at == self.end or other[1][1] < self.deliveries[at].time):
                yield other
                other = next(others, None)
            elif at < self.end:
                delivery = self.deliveries[at]
                at += 1
                yield delivery.seq, (delivery.consumer_seq, delivery.time)
            else:
                return

    def __eq__(self, other):
        return isinstance(other, Pending) and dict(self.items()) == dict(other.items())

    def __repr__(self):
        return f'Pending({dict(self.items())})'

    @property
    def is_in_order(self):
        return not self.moved

    @property
    def out_of_order(self):
        return len(self.moved)

    def lowest(self):
        """There must be one."""
        cdef list lowest = [self.deliveries[self.first].seq] if self.in_order else []
        if self.moved:
            lowest.append(min(self.moved))
        return min(lowest)

    def below(self, seq, Py_ssize_t most):
        cdef uint64_t limit = min(seq, UINT64_MAX)
        cdef Py_ssize_t at = self.first
        cdef list found = []
        while at < self.end and self.deliveries[at].seq < limit and (len(found) < most or self.moved):
            if self.deliveries[at].consumer_seq != GONE:
                found.append(self.deliveries[at].seq)
            at += 1
        found += [other for other in self.moved if other < seq]
        return found

    def parts(self, Py_ssize_t most):
        cdef bytes seqs = self._in_order()
        cdef list others = list(self.moved)
        cdef Py_ssize_t at, count = len(seqs) // sizeof(uint64_t)
        for at in range(0, count, most):
            yield self._still_pending(seqs, at, min(at + most, count))
        for at in range(0, len(others), most):
            yield [seq for seq in others[at:at + most] if seq in self]

    cdef bytes _in_order(self):
        """The sequences of those that are in order, 64 bits each: a list of numbers would take ten times as long."""
        cdef bytes seqs = PyBytes_FromStringAndSize(NULL, self.in_order * sizeof(uint64_t))
        cdef uint64_t *place = <uint64_t *> PyBytes_AS_STRING(seqs)
        cdef Py_ssize_t at
        for at in range(self.first, self.end):
            if self.deliveries[at].consumer_seq != GONE:
                place[0] = self.deliveries[at].seq
                place += 1
        return seqs

    cdef list _still_pending(self, bytes seqs, Py_ssize_t start, Py_ssize_t end):
        cdef uint64_t *place = <uint64_t *> PyBytes_AS_STRING(seqs)
        cdef Py_ssize_t at
        cdef list found = []
        for at in range(start, end):
            if self._find(place[at]) >= 0 or self.moved and place[at] in self.moved:
                found.append(place[at])
        return found

    def number_parts(self, Py_ssize_t most):
        cdef Py_ssize_t at = self.first, start
        cdef list others
        while at < self.end:
            start = at
            at = min(at + most, self.end)
            yield self._numbers(start, at)
        others = list(self.moved.items())
        for start in range(0, len(others), most):
            yield [number for seq, (consumer_seq, time) in others[start:start + most]
                   for number in (seq, consumer_seq, time)]

    cdef list _numbers(self, Py_ssize_t start, Py_ssize_t end):
        cdef list numbers = []
        cdef Delivery *delivery
        cdef Py_ssize_t at
        for at in range(start, end):
            delivery = &self.deliveries[at]
            if delivery.consumer_seq != GONE:
                numbers.append(delivery.seq)
                numbers.append(delivery.consumer_seq)
                numbers.append(delivery.time)
        return numbers
