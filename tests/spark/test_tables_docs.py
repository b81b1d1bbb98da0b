"""docs/tables.md: its examples, run in order as a reader would, show what is shown.

The commands run in this process, with the Spark of the tests: starting one for each would take minutes.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headrace.cli.command import run
from headrace.spark import session
from headrace.spark.pipeline.reading import read_pipeline
from tests.servers import running_server
from tests.spark.conftest import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

TEXT = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
STORED_SECONDS = 30.0
SERVER = "nats://127.0.0.1:4222"
FILE = re.compile(r"`(\S+)`:\n\n```(?:json|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What is different each time: times, durations, the names of files, the ids of queries.
CHANGING = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?|date=\d{4}-\d\d-\d\d|\d+(?:\.\d+)? s\b|"
    r"[\d,]+ rows?/s|part-\S+|batch-\S+|compacted-\S+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def part(*headings: str) -> str:
    """The text under these headings of the second level."""
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
    return "".join(parts[heading] for heading in headings)


def unchanging(text: str) -> list[str]:
    """The lines, without what is different each time; columns may be wider then."""
    lines = (re.sub(r"[ -]{2,}", "  ", CHANGING.sub("…", line)).strip() for line in text.splitlines())
    return [line for line in lines if line]


@dataclass
class Reader:
    """Does what the page says, in a directory and with a server that are not those of the page."""

    broker: Broker
    directory: Path

    def __post_init__(self) -> None:
        self._names: dict[str, Any] = {}

    def follow(self, *headings: str, programs_only: bool = False) -> None:
        text = part(*headings)
        for name, content in FILE.findall(text):
            (self.directory / name).write_text(content)
        for language, block in BLOCK.findall(text):
            if language == "python":
                self._run_program(block)
            elif not programs_only:
                self._run_commands(block)

    def _here(self, text: str) -> str:
        text = re.sub(r"(?<![\w/.-])(tables/|tables\b(?= |'|\"|$))", f"{self.directory}/\\1", text)
        text = re.sub(r"(?<![\w/])(order\.avsc|orders\.desc)", f"{self.directory}/\\1", text)
        return text.replace(SERVER, self.broker.url)

    def _run_program(self, block: str) -> None:
        """What it prints is shown in comments."""
        program = self._here(block).replace("nats.connect()", f"nats.connect({self.broker.url!r})")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(program, block, "exec"), self._names)
        shown = "\n".join(re.findall(r"^# (.*)$", block, re.MULTILINE))
        assert unchanging(printed.getvalue()) == unchanging(shown), printed.getvalue()

    def _run_commands(self, block: str) -> None:
        parts = re.split(r"^\$ ((?:.*\\\n)*.+)\n", block, flags=re.MULTILINE)
        assert not parts[0]
        for line, shown in zip(parts[1::2], parts[2::2], strict=True):
            program, *arguments = shlex.split(self._here(line).replace("\\\n", ""))
            assert program == "headrace", line
            stored = self._stored() if arguments[0] == "pub" else None
            printed = self.printed(arguments)
            if stored is not None:
                self._wait_until_stored(stored + 1)
            lines = unchanging(printed.replace(f"{self.directory}/", ""))
            # Progress is printed every two seconds, so nobody knows how often.
            missing = [one for one in unchanging(shown) if one not in lines]
            assert not missing, f"{line}\n{printed}"

    def _stored(self) -> int:
        return int(self.broker.state("ORDERS").messages)

    def _wait_until_stored(self, count: int) -> None:
        """`headrace pub` waits until the server has a message, not until the stream does."""
        deadline = time.monotonic() + STORED_SECONDS
        while self._stored() < count:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def printed(self, arguments: list[str]) -> str:
        """On stdout and stderr."""
        with (
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.redirect_stderr(printed),
        ):
            run(arguments)
        return printed.getvalue()


@pytest.fixture
def reader(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Commands get a session of the Spark that runs already, and leave it running."""
    original = session.spark_session

    def beside(*arguments: Any, **options: Any) -> SparkSession:
        found = original(*arguments, **options)
        found.stop = lambda: None  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(session, "spark_session", beside)
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # no warning that a plugin would be faster
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path / "streams")]) as server:
        broker = Broker(server)
        monkeypatch.setenv("NATS_URL", broker.url)
        yield Reader(broker, tmp_path)
    for number, handler in before.items():
        signal.signal(number, handler)
    logging.disable(logging.NOTSET)


IN_ORDER = (
    "From stream to table",
    "Typed columns",
    "Dead letters",
    "Evolution",
    "Keys",
    "Stream and table as one",
    "Formats",
    "Reading with other programs",
    "Maintenance",
)
ALONE = ("Payloads", "Converting a Parquet table")


@pytest.mark.slow
def test_the_examples_show_what_happens(reader: Reader) -> None:
    reader.follow(*IN_ORDER)
    for table, letters in {"raw": 0, "orders": 1, "lake": 1, "files": 1}.items():
        query = f"SELECT count(*) AS letters FROM {table}_dead_letters"
        printed = reader.printed(["sql", "--tables", f"{reader.directory}/tables", query])
        assert unchanging(printed)[-1] == str(letters)
    printed = reader.printed(["sql", "--tables", f"{reader.directory}/tables", "SELECT * FROM orderz"])
    assert printed.endswith("; the tables are files, lake, orders, prices, raw\n")


@pytest.mark.long
@pytest.mark.parametrize("heading", ALONE)
def test_an_example_of_its_own_shows_what_happens(reader: Reader, heading: str) -> None:
    reader.follow(IN_ORDER[0], programs_only=True)
    reader.follow(heading)


def test_no_example_is_left_out() -> None:
    assert len(BLOCK.findall(TEXT)) == len(BLOCK.findall(part(*IN_ORDER, *ALONE)))


def test_the_pipeline_is_valid(tmp_path: Path) -> None:
    ((name, content),) = FILE.findall(part("Pipelines"))
    (tmp_path / name).write_text(content)
    orders, latest = read_pipeline(tmp_path / name).sinks
    assert orders.decoding is not None
    names = "seq timestamp country kind id item amount time"
    assert orders.decoding.columns.names == names.split()
    assert (latest.settings.format, latest.key) == ("iceberg", ("id",))
