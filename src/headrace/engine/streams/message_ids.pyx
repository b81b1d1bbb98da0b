"""The ids of recent messages, so that a message that is sent again is not stored again.

A stream that gets 300,000 messages a second remembers 36 million ids in the usual two minutes. So an id is only a hash
of 64 bits here, with the sequence and the time of its message. The id itself is in the headers of the message,
where it is compared after a hash was found (stream_sink.pyx).

    blocks    64 ids each, in the order of time: new ones go to the last block, and a block that is too old is freed
    buckets   the ids by hash, each bucket a list, one id per bucket on average; together 40 bytes for an id

Nearly every id is new, and with millions of them each look at another one waits for memory. So a bucket also has 16 bits,
next to the address of its first id: for every id in it the one that the first bits of its hash number. Where that of
a new id is not set, no other id is looked at (the row stream-4096-ids of the benchmark, and the sink of Spark's).

Nothing is ever done to all ids at once, because that stalls everybody: rebuilding a table of a million takes 30 ms.
The table is a linear hash table (W. Litwin, 1980), which grows by one bucket for an id that is added:

    0 1 2 3 4 5       6 buckets: `rounded` is 4. An id belongs to the bucket of the last 3 bits of its hash if there is
            ^ ^       one, otherwise to that of the last 2. The next bucket, 6, gets a part of bucket 2, and no other
                      bucket changes.

Likewise, a call frees only a few of the ids that are too old. The others are no longer found.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc

from headrace.engine.basics.hashing cimport hash_of

import os

DEF BLOCK_IDS = 64
DEF SEGMENT_BUCKETS = 256
DEF FORGOTTEN_AT_ONCE = 4            # more than the one that is added at the same time
DEF DEPTH_AHEAD = 3                  # ids of a bucket that are fetched before it is split; few have more
DEF SPLITS_AHEAD = 3                 # how many splits in advance each of these is fetched
DEF ADDRESS_BITS = 48
cdef uint64_t ADDRESS = (<uint64_t> 1 << ADDRESS_BITS) - 1

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void *address) nogil


cdef inline Remembered *first_of(Bucket bucket) noexcept:
    return <Remembered *> (bucket & ADDRESS)


cdef inline uint64_t sign_of(uint64_t hashed) noexcept:
    return <uint64_t> 1 << (ADDRESS_BITS + (hashed >> 60))


cdef inline void put(Bucket *bucket, Remembered *entry) noexcept:
    entry.next = first_of(bucket[0])
    bucket[0] = <uint64_t> entry | (bucket[0] & ~ADDRESS) | sign_of(entry.hash)


cdef class MessageIds:
    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), 'little')

    def __dealloc__(self):
        self.clear()

    cdef uint64_t hash(self, const char *text, Py_ssize_t length) noexcept:
        return hash_of(text, length, self.seed)

    cdef void fetch(self, uint64_t hashed) noexcept:
        """Prefetch the bucket of an id with this hash."""
        if self.buckets:
            prefetch(self._bucket_of(hashed))

    cdef Remembered *find(self, uint64_t hashed, Remembered *after) noexcept:
        """A message with this hash; the next one `after` one that was found, if that is not NULL. NULL: none."""
        cdef Remembered *entry
        cdef Bucket bucket
        if self.count == 0:
            return NULL
        if after == NULL:
            bucket = self._bucket_of(hashed)[0]
            if not bucket & sign_of(hashed):
                return NULL
            entry = first_of(bucket)
        else:
            entry = after.next
        while entry != NULL and (entry.hash != hashed or entry.time <= self.horizon):
            entry = entry.next
        return entry

    cdef int reserve(self) except -1:
        """Allocate the memory that the next `add` needs."""
        cdef Block *block
        if self.buckets == 0:
            if not self._has_room_for_bucket():
                raise MemoryError
            self.buckets = self.rounded = 1
        if self.newest == NULL or self.newest.end == BLOCK_IDS:
            block = <Block *> malloc(sizeof(Block))
            if block == NULL or (<uint64_t> block + sizeof(Block)) & ~ADDRESS:
                free(block)
                raise MemoryError
            block.first = block.end = 0
            block.newer = NULL
            block.older = self.newest
            if self.newest == NULL:
                self.oldest = block
            else:
                self.newest.newer = block
            self.newest = block
        return 0

    cdef int add(self, uint64_t hashed, uint64_t seq, int64_t time) except -1:
        cdef Remembered *entry
        self.reserve()
        entry = &self.newest.ids[self.newest.end]
        entry.hash = hashed
        entry.seq = seq
        entry.time = time
        put(self._bucket_of(hashed), entry)
        self.newest.end += 1
        self.count += 1
        if self.count > self.buckets and self._has_room_for_bucket():      # without memory the lists get longer
            self._split()
        return 0

    cdef bint forget_before(self, int64_t time) noexcept:
        """Forget ids that are not younger than this. Returns whether some of them still use memory."""
        cdef Block *block
        cdef int k
        self.horizon = time
        for k in range(FORGOTTEN_AT_ONCE):
            block = self.oldest
            if block == NULL or block.first == block.end or block.ids[block.first].time > time:
                return False
            self._unlink(&block.ids[block.first])
            block.first += 1
            if block.first == block.end:
                self.oldest = block.newer
                if block.newer == NULL:
                    self.newest = NULL
                else:
                    block.newer.older = NULL
                free(block)
        return True

    cdef void forget_after(self, uint64_t seq) noexcept:
        """Forget the messages above a sequence, which were not stored after all."""
        cdef Block *block = self.newest
        while block != NULL:
            while block.first != block.end:
                if block.ids[block.end - 1].seq <= seq:
                    return
                self._unlink(&block.ids[block.end - 1])
                block.end -= 1
            self.newest = block.older
            if block.older == NULL:
                self.oldest = NULL
            else:
                block.older.newer = NULL
            free(block)
            block = self.newest

    cdef void clear(self) noexcept:
        cdef Block *block
        cdef uint64_t k
        while self.oldest != NULL:
            block = self.oldest
            self.oldest = block.newer
            free(block)
        for k in range((self.buckets + SEGMENT_BUCKETS - 1) // SEGMENT_BUCKETS):
            free(self.segments[k])
        free(self.segments)
        self.newest = NULL
        self.segments = NULL
        self.segment_capacity = self.buckets = self.rounded = self.count = 0

    # -- the table ----------------------------------------------------------------------------------------------

    cdef Bucket *_bucket(self, uint64_t number) noexcept:
        return &self.segments[number // SEGMENT_BUCKETS][number % SEGMENT_BUCKETS]

    cdef Bucket *_bucket_of(self, uint64_t hashed) noexcept:
        cdef uint64_t number = hashed & (2 * self.rounded - 1)
        return self._bucket(number if number < self.buckets else number - self.rounded)

    cdef bint _has_room_for_bucket(self) noexcept:
        """Make room for one more bucket. False when there is no memory."""
        cdef uint64_t segment = self.buckets // SEGMENT_BUCKETS
        cdef uint64_t capacity
        cdef void *grown
        if self.buckets % SEGMENT_BUCKETS:
            return True
        if segment == self.segment_capacity:
            capacity = 2 * self.segment_capacity if self.segment_capacity else 1
            grown = realloc(self.segments, capacity * sizeof(Bucket *))
            if grown == NULL:
                return False
            self.segments = <Bucket **> grown
            self.segment_capacity = capacity
        self.segments[segment] = <Bucket *> calloc(SEGMENT_BUCKETS, sizeof(Bucket))
        return self.segments[segment] != NULL

    cdef void _split(self) noexcept:
        """One more bucket, for which there is room: it gets its ids from another one."""
        cdef Bucket *divided = self._bucket(self.buckets - self.rounded)
        cdef Bucket *added = self._bucket(self.buckets)
        cdef Remembered *entry = first_of(divided[0])
        cdef Remembered *following
        fetch_ahead(self, self.buckets - self.rounded)
        divided[0] = 0
        while entry != NULL:
            following = entry.next
            put(added if entry.hash & (2 * self.rounded - 1) == self.buckets else divided, entry)
            entry = following
        self.buckets += 1
        if self.buckets == 2 * self.rounded:
            self.rounded = self.buckets

    cdef void _merge(self) noexcept:
        """Merge the last bucket into the one that it was split from. There is more than one."""
        cdef Bucket *taken
        cdef Bucket *merged
        cdef Remembered *entry
        cdef Remembered *following
        self.buckets -= 1
        if self.buckets < self.rounded:
            self.rounded //= 2
        taken = self._bucket(self.buckets)
        merged = self._bucket(self.buckets - self.rounded)
        entry = first_of(taken[0])
        taken[0] = 0
        while entry != NULL:
            following = entry.next
            put(merged, entry)
            entry = following
        if self.buckets % SEGMENT_BUCKETS == 0:
            free(self.segments[self.buckets // SEGMENT_BUCKETS])

    cdef void _unlink(self, Remembered *entry) noexcept:
        cdef Bucket *bucket = self._bucket_of(entry.hash)
        cdef Remembered *before = first_of(bucket[0])
        cdef int k
        if before == entry:
            bucket[0] = <uint64_t> entry.next | (bucket[0] & ~ADDRESS) if entry.next != NULL else 0
        else:
            while before.next != entry:
                before = before.next
            before.next = entry.next
        self.count -= 1
        for k in range(2):                       # there were at most as many buckets as ids, so none are left
            if self.buckets > 1 and self.buckets > 2 * self.count:
                self._merge()


cdef void fetch_ahead(MessageIds ids, uint64_t number) noexcept:
    """Have the processor fetch the ids of the buckets that will be split soon, which are anywhere in memory.

    Waiting for them took a sixth of the server's time in the row stream-4096-ids of the benchmark. The address of each id
    is in the one before it, which has arrived by then.
    """
    cdef Remembered *entry
    cdef int depth, k
    if number + DEPTH_AHEAD * SPLITS_AHEAD < ids.buckets:
        for depth in range(DEPTH_AHEAD):
            entry = first_of(ids._bucket(number + (DEPTH_AHEAD - depth) * SPLITS_AHEAD)[0])
            for k in range(depth):
                if entry != NULL:
                    entry = entry.next
            if entry != NULL:
                prefetch(entry)
