"""The archive of Java's classes: made once, used afterwards, and never a reason to fail."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from headrace.spark import class_archive
from headrace.spark.class_archive import ATTEMPTS, COMPLETE_SECONDS, options_for
from headrace.spark.java import Java, find_java

MADE = "-XX:ArchiveClassesAtExit="
USED = "-XX:SharedArchiveFile="


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv(class_archive.DISABLE, raising=False)
    return tmp_path / "cache" / "headrace" / "classes"


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """What counts of a Spark are its jars."""
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core.jar").write_bytes(b"classes")
    return jars.parent


JAVA = Java(Path("/usr/lib/jvm/java"), 17, "a test")


def file_of(options: str) -> Path:
    return Path(options.split()[0].partition("=")[2])


def write_archive(options: str, content: bytes = b"\xa8\xba\x0b\xf0classes", age: float = 1.0) -> Path:
    """As Java does when it exits; long ago, in units of the time after which it counts as complete."""
    assert options.startswith(MADE)
    path = file_of(options)
    path.write_bytes(content)
    then = time.time() - age * COMPLETE_SECONDS
    os.utime(path, (then, then))
    return path


def options(spark: Path, *, make: bool = True, kind: str = "sql") -> str:
    return options_for(JAVA, spark, kind, make=make)


def test_it_is_made_once_and_used_afterwards(cache: Path, spark: Path) -> None:
    assert options(spark, make=False) == ""
    assert not cache.exists()
    made = options(spark)
    write_archive(made, age=2)
    used = options(spark)
    assert used.startswith(USED)
    assert [path.name for path in cache.iterdir()] == [file_of(used).name]
    assert options(spark, make=False) == options(spark) == used


def test_each_java_each_spark_and_each_kind_has_its_own(cache: Path, spark: Path) -> None:
    write_archive(options(spark), age=2)
    assert options(spark).startswith(USED)
    assert options(spark, kind="stream").startswith(MADE)
    assert options_for(Java(Path("/opt/java"), 17, ""), spark, "sql", make=True).startswith(MADE)
    (spark / "jars" / "spark-core.jar").write_bytes(b"other classes")
    assert options(spark).startswith(MADE)


def test_an_archive_that_may_still_be_written_is_not_used(cache: Path, spark: Path) -> None:
    write_archive(options(spark), age=0.1)
    assert options(spark, make=False) == ""


def test_of_several_made_at_the_same_time_one_stays(cache: Path, spark: Path) -> None:
    both = options(spark), options(spark)
    assert file_of(both[0]) != file_of(both[1])
    for made in both:
        write_archive(made, age=2)
    assert options(spark).startswith(USED)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0half of it"])
def test_a_java_that_makes_none_is_not_asked_again(cache: Path, spark: Path, content: bytes) -> None:
    for _ in range(ATTEMPTS):
        write_archive(options(spark), content, age=2)
    assert options(spark) == ""
    for path in cache.iterdir():
        os.utime(path, (0, 0))
    assert options(spark) == ""
    # … until some other kind tidies up.
    assert options(spark, kind="stream").startswith(MADE)
    assert options(spark).startswith(MADE)


@pytest.mark.parametrize("content", [b"", b"\xa8", b"\xa8\xba\x0b\xf0classEs"])
def test_a_damaged_archive_is_removed(cache: Path, spark: Path, content: bytes) -> None:
    write_archive(options(spark), age=2)
    damaged = file_of(options(spark))
    damaged.write_bytes(content)
    assert options(spark).startswith(MADE)
    assert not damaged.exists()


def test_what_was_not_used_for_long_is_removed(cache: Path, spark: Path) -> None:
    write_archive(options(spark), age=2)
    old = file_of(options(spark))
    os.utime(old, (0, 0))
    assert options(spark, kind="stream").startswith(MADE)
    assert not old.exists()


def test_where_it_cannot_be_there_is_none(
    cache: Path, spark: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as changed:
        changed.setenv("XDG_CACHE_HOME", str(tmp_path / "with space"))
        assert options(spark) == ""
    with monkeypatch.context() as changed:
        (tmp_path / "file").touch()
        changed.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        assert options(spark) == ""
    with monkeypatch.context() as changed:
        changed.setenv(class_archive.DISABLE, "1")
        assert options(spark) == ""
    (spark / "conf").mkdir()
    assert options(spark).startswith(MADE)
    (spark / "conf" / "spark-defaults.conf").touch()
    assert options(spark) == ""
    assert options_for(JAVA, tmp_path / "no spark", "sql", make=True) == ""


def test_java_makes_it_and_uses_it(cache: Path, spark: Path) -> None:
    """With a real Java, and no class but its own."""
    java = find_java()

    def start(given: str) -> None:
        program = str(java.home / "bin" / "java")
        done = subprocess.run([program, *given.split(), "-version"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr.startswith("openjdk version")

    made = options_for(java, spark, "sql", make=True)
    start(made)
    path = file_of(made)
    if not path.stat().st_size:
        pytest.skip("this Java makes no archives")
    os.utime(path, (time.time() - 2 * COMPLETE_SECONDS,) * 2)
    used = options_for(java, spark, "sql", make=True)
    assert used.startswith(USED)
    start(used.replace("-Xshare:auto", "-Xshare:on"))  # which would fail if the archive did not fit
