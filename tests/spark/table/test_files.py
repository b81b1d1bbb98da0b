"""Listing the files of a table while others write to it."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.table.files import File, Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = (
    "a.parquet",
    "day=2026-01-01/b c.parquet",
    "day=%2F/ü.parquet",
    "x/y/z/_SUCCESS",
    "x/.hidden",
    "x/.a.crc",
)


def test_local_files_are_listed_as_hadoop_lists_them(spark: SparkSession, tmp_path: Path) -> None:
    for size, name in enumerate(NAMES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "empty").mkdir()
    for root in (tmp_path, tmp_path / "x", tmp_path / "empty", tmp_path / "a.parquet"):
        for spelled in (str(root), f"file:{root}"):
            files = Files(spark, spelled)
            listed = files.list()
            base = files._system.getFileStatus(files._path(files.root)).getPath()
            assert sorted(listed, key=repr) == sorted(files._remote_files(base), key=repr)
    (tmp_path / "x" / "y" / "up").symlink_to("..")
    assert len(files_and_up := Files(spark, str(tmp_path)).list("x")) > 2
    assert {file.name for file in files_and_up} == {".hidden", "_SUCCESS"}
    (tmp_path / "x" / "y" / "up").unlink()
    (tmp_path / "x" / "y" / os.fsdecode(b"not utf-8 \xff")).touch()
    assert Files(spark, str(tmp_path)).list("x") == [File(".hidden", 4), File("y/z/_SUCCESS", 3)]
    for nothing in ("nothing", "a.parquet/below a file"):
        assert Files(spark, str(tmp_path / nothing)).list() == []


def test_what_disappears_meanwhile_does_not_stop_a_listing(spark: SparkSession, tmp_path: Path) -> None:
    """A task of Spark that ends removes its `_temporary` while the table is being tidied."""
    files, ended = Files(spark, str(tmp_path)), threading.Event()
    (tmp_path / "stays").touch()

    def write() -> None:
        while not ended.is_set():
            directory = tmp_path / "batch"
            for number in range(20):
                (directory / "_temporary" / str(number)).mkdir(parents=True)
                (directory / "_temporary" / str(number) / "part").touch()
            shutil.rmtree(directory)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            assert File("stays", 0) in files.list()
    finally:
        ended.set()
        writer.join()


def test_a_directory_that_disappears_has_no_files(spark: SparkSession, tmp_path: Path) -> None:
    files, ended = Files(spark, str(tmp_path)), threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            (tmp_path / "sometimes").mkdir()
            (tmp_path / "sometimes").rmdir()

    changing = threading.Thread(target=come_and_go)
    changing.start()
    try:
        for _ in range(1000):
            assert files.list("sometimes") == []
    finally:
        ended.set()
        changing.join()
