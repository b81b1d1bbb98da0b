"""One segment: a file of records, with everything that one can know about it without its neighbors.

    record          the head of a record and its checksum
    segment         a segment in memory: where its records are, and what was removed from it
    contents        reading a whole file: records, damage, a torn tail
    checksums       finding the damaged stretch of a large record
    index_file      what `contents` found, saved next to a sealed segment
    windows         reading some records of one file, ahead
    codec, packing  compressed segments: blocks, and which record is in which
    files           system calls, with what they mean

The store (engine/store) has many of them and decides when one is sealed, rewritten or removed.
"""
