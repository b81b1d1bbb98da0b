"""A client of Spark Connect, which knows nothing of headrace: `connect_client.py sc://… nats://… DIR`.

The stream FROM is read as a batch and as a stream, into a table and into the stream TO. What came of it is
written to stdout as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

ATTEMPTS = 5


def finish(writer: DataStreamWriter) -> None:
    """Again if Spark did not wait long enough for a Python process, as headrace.spark.start does."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            writer.start().awaitTermination()
            return
        except Exception as error:
            if "failed to connect back" not in str(error) or attempt == ATTEMPTS:
                raise


def main(remote: str, servers: str, directory: str) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    found: dict[str, object] = {"session": type(spark).__module__}

    def read(stream: str) -> list[str]:
        rows = spark.read.format("nats").options(servers=servers, stream=stream).load()
        return [row.text for row in rows.orderBy("seq").selectExpr("string(data) AS text").collect()]

    spark.sql("SELECT 'FROM.b' AS subject, 'written' AS data").write.format("nats").mode("append").options(
        servers=servers
    ).save()
    found["batch"] = read("FROM")

    rows = (
        spark.readStream.format("nats")
        .options(servers=servers, stream="FROM", startingOffsets="earliest")
        .load()
    )
    to_table = rows.writeStream.format("parquet").option("path", f"{directory}/table")
    to_stream = rows.select("data").writeStream.format("nats").options(servers=servers, subject="TO.a")
    for name, writer in ("table", to_table), ("stream", to_stream):
        checkpointed = writer.option("checkpointLocation", f"{directory}/state/{name}")
        finish(checkpointed.trigger(availableNow=True))
    found["table"] = spark.read.parquet(f"{directory}/table").count()
    found["stream"] = read("TO")
    spark.sql(f"CREATE TEMPORARY VIEW messages USING nats OPTIONS (servers '{servers}', stream 'TO')")
    found["sql"] = spark.sql("SELECT count(*) FROM messages").first()[0]
    try:
        read("NOWHERE")
    except Exception as error:
        found["error"] = str(error)
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
