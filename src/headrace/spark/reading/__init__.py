"""Streams as tables: partitions of a batch read, and offsets, limits and batches of a streaming one."""
