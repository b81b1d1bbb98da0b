"""Spark: which Java it runs on, and the session that all other Spark work uses.

Read `java` (find one that Spark can use), then `session` (start it, once and in one way). PySpark is an
extra, so nothing here imports it before it is needed.
"""
