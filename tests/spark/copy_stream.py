"""A Spark driver that copies a stream, for tests that kill it.

    python -m tests.spark.copy_stream URL SOURCE TARGET CHECKPOINT ROWS_PER_BATCH

It ends when all messages that were there at its start are copied. Restarted, it resumes.
"""

from __future__ import annotations

import sys

from headrace.spark.session import spark_session
from headrace.spark.start import start_query


def main() -> None:
    url, source, target, checkpoint, rows_per_batch = sys.argv[1:]
    settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    spark = spark_session("copy", master="local[2]", settings=settings)
    rows = (
        spark.readStream.format("nats")
        .options(servers=url, stream=source, startingOffsets="earliest", minPartitions=2)
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )
    writer = rows.writeStream.format("nats").options(servers=url, subject=f"{target}.copy")
    start_query(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
