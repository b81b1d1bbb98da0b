"""Landing while the driver and the server are killed, and a reader polls: every sequence once, batches whole.

The driver is killed with SIGKILL at each step of a batch, and at moments that nobody chose.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake.exceptions import DeltaError

from headrace.errors import UsageError
from headrace.spark.table.interface import Settings, TableError
from headrace.spark.table.opening import open_table
from tests.spark.land_and_die import MOMENTS, ONLY_ICEBERG, ONLY_PARQUET
from tests.spark.table.formats import read_elsewhere
from tests.spark.table.readers import ATOMIC, Reader, count_rows, read_version
from tests.spark.test_exactly_once import Restartable, kill
from tests.spark.test_lake_faults import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = [sys.executable, "-m", "tests.spark.land_and_die"]
LIFE_SECONDS = 300.0
PER_BATCH = 10


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Restartable]:
    restartable = Restartable("headrace", tmp_path / "store")
    yield restartable
    restartable.close()


def check_whole(spark: SparkSession, directory: Path, form: str, count: int) -> None:
    """Every sequence once, as all readers find it, and as the table's own commit says."""
    expected = list(range(1, count + 1))
    assert sorted(read_version(directory, form)[1]) == expected
    table = open_table(spark, str(directory), Settings())
    assert sorted(row["seq"] for row in table.read(spark).select("seq").collect()) == expected
    latest = table.latest()
    assert latest is not None
    assert latest.positions["S"].next == count + 1
    for program, rows in read_elsewhere(table).items():
        assert sorted(row["seq"] for row in rows) == expected, program


def die_at(command: Sequence[str], moment: str, batch: int) -> None:
    done = subprocess.run([*command, moment, str(batch)], start_new_session=True, capture_output=True)
    assert done.returncode == -9, (moment, done.stderr[-2000:])


def finish(command: Sequence[str]) -> None:
    done = subprocess.run(command, start_new_session=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]


def land_and_die_at(
    spark: SparkSession, server: Restartable, directory: Path, form: str, moments: Sequence[str]
) -> None:
    count = PER_BATCH * (len(moments) + 2)
    publish(server.url, [b"%d" % number for number in range(count)])
    command = [*DRIVER, form, server.url, "S", str(directory), str(PER_BATCH)]
    reader = Reader(directory, form, PER_BATCH, count)
    with reader.polling():
        for batch, moment in enumerate(moments, start=1):
            die_at(command, moment, batch)
            print(f"killed in batch {batch}, {moment}")
        finish(command)
    assert reader.problems == []
    assert form not in ATOMIC or reader.reads > len(moments)
    check_whole(spark, directory, form, count)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_a_driver_that_is_killed_at_each_step_of_a_batch_lands_every_row_once(
    spark: SparkSession, server: Restartable, tmp_path: Path, form: str
) -> None:
    foreign = {"delta": ONLY_PARQUET + ONLY_ICEBERG, "iceberg": ONLY_PARQUET, "parquet": ONLY_ICEBERG}[form]
    moments = [moment for moment in MOMENTS if moment not in foreign]
    land_and_die_at(spark, server, tmp_path / "table", form, moments)


def land_with_kills(
    server: Restartable, directory: Path, form: str, count: int, per_batch: int, kills: int, server_kills: int
) -> Counter[str]:
    """Returns how often driver and server were killed."""
    chance = random.Random()
    command = [*DRIVER, form, server.url, "S", str(directory), str(per_batch)]
    killed: Counter[str] = Counter()
    deadline = time.monotonic() + LIFE_SECONDS * (kills + 1)
    while True:
        driver = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        seen = landed(directory, form)
        left = kills - killed["driver"]
        goal = seen + chance.randrange(0, max(1, (count - seen) // (left + 1)))
        try:
            while driver.poll() is None:
                assert time.monotonic() < deadline, "landing does not get on"
                time.sleep(0.02)
                if landed(directory, form) < goal or not left:
                    continue
                if killed["server"] < server_kills and killed["driver"] > killed["server"]:
                    server.kill_and_start()
                    killed["server"] += 1
                time.sleep(chance.random() * 0.8)
                if driver.poll() is None:
                    kill(driver, chance)
                    killed["driver"] += 1
                    print(
                        f"killed with {landed(directory, form):,} of {count:,} rows in the table", flush=True
                    )
        finally:
            if driver.poll() is None:
                kill(driver, chance)
        if driver.returncode == 0:
            return killed


def landed(directory: Path, form: str) -> int:
    """Roughly: a reader of plain Parquet may meet a file that is being removed."""
    try:
        return count_rows(directory, form)
    except (DeltaError, UsageError, TableError, OSError):
        return 0


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_a_table_whose_driver_and_server_are_killed_at_random_has_every_row_once(
    spark: SparkSession, server: Restartable, tmp_path: Path, form: str
) -> None:
    count, per_batch, directory = 200_000, 2_000, tmp_path / "table"
    publish(server.url, [b"%d" % number for number in range(count)])
    reader = Reader(directory, form, per_batch, count)
    with reader.polling():
        killed = land_with_kills(server, directory, form, count, per_batch, kills=20, server_kills=3)
    print(f"{dict(killed)}, {reader.reads} reads")
    assert killed["driver"] >= 20
    assert killed["server"] == 3
    assert reader.problems == []
    check_whole(spark, directory, form, count)
