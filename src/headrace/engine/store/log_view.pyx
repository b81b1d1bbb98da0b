"""What a log and a snapshot of one have in common: the state of a stream, as the NATS docs call it, and its messages.

It is the only base class here, because to a reader both are the same thing: a store, whoever may write to it.
"""

from libc.stdint cimport int64_t, uint64_t

cimport headrace.engine.store.readings as readings

cdef uint64_t UNLIMITED = <uint64_t> -1


cdef class LogView:
    @property
    def first_seq(self):
        return self.store.first_seq

    @property
    def last_seq(self):
        return self.store.last_seq

    @property
    def count(self):
        return self.store.count

    @property
    def byte_count(self):
        """The size of all messages, as in nats-server."""
        return self.store.byte_count

    @property
    def first_time(self):
        """The time of the first message; 0: there is none."""
        return readings.first_time(self.store)

    @property
    def last_time(self):
        return self.store.last_time

    def get(self, uint64_t seq):
        """A message, committed or not; None if it is not there."""
        return readings.get(self.store, seq)

    def seek_time(self, int64_t time):
        """The first sequence whose message is not older; last_seq + 1 if there is none."""
        return readings.seek_time(self.store, time)

    def deleted(self, uint64_t seq=0, uint64_t most=UNLIMITED):
        """The sequences between the first and the last message that have no message, among `most` from `seq` on."""
        return readings.deleted(self.store, seq, most)
