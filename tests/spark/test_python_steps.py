"""Python steps whose functions run in other processes: their modules are sent along, their errors placed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.spark.follow import follow
from headrace.errors import ConfigError
from headrace.spark.pipeline.modules import fail_in_step, send_modules
from headrace.spark.pipeline.plan import build_views
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.pipeline.run import Queries
from headrace.spark.pipeline.specification import Pipeline
from tests.spark.conftest import ONE_SERVER, Nats

pytestmark = [pytest.mark.timeout(240), ONE_SERVER]

FILE = """\
checkpoint: state
sources:
  messages: {stream: ORDERS}
steps:
  doubled:
    python: NAME.steps:double
    from: messages
sinks:
  screen: {from: doubled, console: true}
"""

STEPS = """\
from pyspark.sql.functions import udf

from NAME_helper import FACTOR


@udf("int")
def times(data):
    from NAME.late import checked  # imported where it runs

    return checked(int(bytes(data).decode())) * FACTOR


def double(messages):
    return messages.select(times("data").alias("number"))
"""

LATE = """\
def checked(number):
    if number == 13:
        raise ValueError("thirteen is not allowed")
    return number
"""


def write_pipeline(directory: Path, stream: str, name: str) -> Pipeline:
    """With a package and a module beside the file; the names are new, so that no process knows them yet."""
    (directory / name).mkdir()
    (directory / name / "__init__.py").touch()
    (directory / name / "steps.py").write_text(STEPS.replace("NAME", name))
    (directory / name / "late.py").write_text(LATE)
    (directory / f"{name}_helper.py").write_text("FACTOR = 2\n")
    path = directory / "shop.yml"
    path.write_text(FILE.replace("ORDERS", stream).replace("NAME", name))
    return read_pipeline(path)


def run(on: Nats, pipeline: Pipeline) -> list[int]:
    options = {"servers": on.broker.url}
    shown: list[int] = []
    views = build_views(on.spark, pipeline, options)
    queries = Queries(
        on.spark,
        pipeline,
        views,
        options,
        lambda name, rows: shown.extend(row.number for row in rows.collect()),
        once=True,
    )
    try:
        follow(queries.start_all(), queries.start)
    except Exception as error:
        fail_in_step(error, pipeline)
        raise
    return shown


def test_modules_and_packages_reach_the_workers_and_errors_name_step_and_line(on: Nats) -> None:
    stream = on.broker.make_stream()
    pipeline = write_pipeline(on.directory, stream, "steps_sent")
    on.broker.publish(f"{stream}.a", ["1", "2"])
    assert run(on, pipeline) == [2, 4]
    on.broker.publish(f"{stream}.a", ["13"])
    with pytest.raises(ConfigError) as raised:
        run(on, pipeline)
    assert (raised.value.line, "\n" in str(raised.value)) == (6, False)
    assert "the step doubled failed in steps.py line 10: " in str(raised.value)
    assert "thirteen is not allowed" in str(raised.value)


def test_a_function_that_fails_on_the_driver_has_its_line(on: Nats) -> None:
    pipeline = write_pipeline(on.directory, "ORDERS", "steps_failing")
    (on.directory / "steps_failing" / "steps.py").write_text("def double(messages):\n    return 1 / 0\n")
    with pytest.raises(ConfigError, match=r"ZeroDivisionError: .* \(line 2 of steps.py\)") as raised:
        build_views(on.spark, pipeline, {})
    assert raised.value.line == 6


def test_the_same_modules_can_be_sent_twice(on: Nats) -> None:
    pipeline = write_pipeline(on.directory, "ORDERS", "steps_twice")
    send_modules(on.spark, pipeline)
    send_modules(on.spark, pipeline)
    (on.directory / "steps_twice_helper.py").write_text("FACTOR = 3\n")
    send_modules(on.spark, pipeline)


def test_a_module_that_workers_do_not_have_is_told_with_its_step(on: Nats) -> None:
    pipeline = write_pipeline(on.directory, "ORDERS", "steps_missing")
    error = RuntimeError("Traceback …\nModuleNotFoundError: No module named 'steps_missing'\n")
    with pytest.raises(ConfigError, match="the step doubled failed: the workers have no module") as raised:
        fail_in_step(error, pipeline)
    assert raised.value.line == 6
    fail_in_step(RuntimeError("No module named 'another'"), pipeline)
