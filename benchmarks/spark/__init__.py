"""Streams into Spark and back, beside Parquet and beside a source built on nats-py: the end of `make bench`.

`sources` is what Spark reads from, `work` what it is given to do, `result` what came of it.
"""
