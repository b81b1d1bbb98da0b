"""Streams into Spark and back, compared with Parquet and with a source built on nats-py: the end of `make
bench`.

`sources` is what Spark reads from, `work` the tasks, `result` the results.
"""
