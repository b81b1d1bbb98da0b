"""Snapshot: a log as its files are at the moment, for read-only use. Nothing in the directory is changed.

It is the replay of recovery.pyx, into a store that is never written to. The directory may be that of a stopped server or
a copy of one. It may also be that of a running server, which in the meantime

    appends            the end is where the last complete record ends
    removes messages   the records of the removals are read before the messages: see recover()
    unlinks a segment  ENOENT, here or later
    rewrites one       it has another salt: ESTALE, when its file is next opened
    compresses one     same salt, same positions: read_form() notices when it is next opened
    erases a message   its record is no longer that of a message, or fails its checksum

After ENOENT, ESTALE or a damaged record the reader takes another snapshot and continues there. So no row is ever wrong or
altered: each has the checksum, the salt and the sequence that it was stored with.

The first and last sequence that are wanted may be given. Segments with none of these sequences are not loaded; only
their removals count. Then count, byte_count and first_seq are those of the loaded ones; last_seq is right.
"""

from libc.errno cimport EINVAL, ENOENT, EROFS, ESTALE
from libc.stdint cimport uint64_t

from headrace.engine.segments.files cimport sync_data, sync_directory
from headrace.engine.store.log_view cimport LogView
from headrace.engine.store.recovery cimport recover
from headrace.engine.store.store cimport Store

import os

cdef uint64_t UNLIMITED = <uint64_t> -1
cdef int ATTEMPTS = 10              # no server unlinks a segment during each of them


cdef class Snapshot(LogView):
    def __cinit__(self, str directory not None, uint64_t first=0, uint64_t last=UNLIMITED):
        """Raises OSError if the files cannot be read."""
        cdef int attempt
        for attempt in range(ATTEMPTS):
            self.store = Store(directory, 0)
            self.store.read_only = True
            self.store.wanted_first = first
            self.store.wanted_last = last
            try:
                self.damages = recover(self.store)
                return
            except OSError as error:
                if error.errno not in (ENOENT, ESTALE) or attempt == ATTEMPTS - 1 or not os.path.isdir(directory):
                    raise

    def sync(self):
        """When this returns, what was found is on disk, even what a server has written but not synced yet.

        Raises OSError.
        """
        cdef int error = 0
        if self.store.active != NULL:
            error = sync_data(self.store.active.fd)
            if not error:
                error = sync_directory(self.store.path)
        if error and error not in (EINVAL, EROFS):     # nothing to sync in such a file system
            raise OSError(error, f"cannot sync {self.store.directory}: {os.strerror(error)}")

    def next_live(self, uint64_t seq):
        """The first message at or after a sequence; last_seq + 1 if there is none."""
        return self.store.next_live(seq)
