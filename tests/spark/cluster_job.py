"""A job on executors, two of which are killed in the middle: `cluster_job.py nats://… STREAM DIR`.

It is submitted to a cluster. A stream is counted, copied and landed, the latter two through functions of a
module that only the driver has, each of which kills one executor after its first rows. What came of it is
written to DIR/found.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from headrace.cli.spark.follow import follow
from headrace.spark.land import SETTINGS
from headrace.spark.pipeline.plan import build_views
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.pipeline.run import Queries
from headrace.spark.session import spark_session

PIPELINE = """\
checkpoint: state
sources:
  messages: {stream: STREAM, partitions: 4}
steps:
  lossy_copy: {python: "killing.steps:copy", from: messages}
  lossy_table: {python: "killing.steps:table", from: messages}
sinks:
  copied: {from: lossy_copy, subject: STREAM_COPY.a}
  landed: {from: lossy_table, table: table}
"""

STEPS = '''\
import os
import signal
from pathlib import Path

HERE = "DIRECTORY"


def executor():
    """The process of Java above this one and Spark's daemon."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


def killing(name):
    def rows(batches):
        from killing.once import first_time  # where it runs

        for batch in batches:
            yield batch
            if first_time(f"{HERE}/killed-for-{name}"):
                os.kill(executor(), signal.SIGKILL)

    return rows


def copy(messages):
    kept = messages.select("data", "stream", "seq")
    return kept.mapInArrow(killing("copy"), kept.schema)


def table(messages):
    kept = messages.select("data", "stream", "seq")
    return kept.mapInArrow(killing("table"), kept.schema)
'''

ONCE = """\
import os


def first_time(path):
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
"""


def main(url: str, stream: str, place: str) -> None:
    directory = Path(place)
    (directory / "killing").mkdir()
    (directory / "killing" / "__init__.py").touch()
    (directory / "killing" / "steps.py").write_text(STEPS.replace("DIRECTORY", place))
    (directory / "killing" / "once.py").write_text(ONCE)
    (directory / "job.yml").write_text(PIPELINE.replace("STREAM", stream))
    spark = spark_session("cluster job", settings=SETTINGS)
    options = {"servers": url}
    rows = spark.read.format("nats").options(**options, stream=stream, minPartitions=4).load()
    assert "local[" not in spark.sparkContext.master
    found: dict[str, object] = {"read": rows.selectExpr("count(DISTINCT seq)").first()[0]}
    pipeline = read_pipeline(directory / "job.yml")
    views = build_views(spark, pipeline, options)
    queries = Queries(spark, pipeline, views, options, lambda name, rows: None, once=True)
    progress = follow(queries.start_all(), queries.start, tallies=queries.tallies)
    found["progress"] = {name: str(reached) for name, reached in progress.items()}
    found["killed"] = sorted(path.name for path in directory.glob("killed-for-*"))
    (directory / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
