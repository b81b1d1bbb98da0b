"""Messages on disk or in memory: the log of one stream, and the threads that write and sync it."""
