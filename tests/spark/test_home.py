"""The home that Spark is started with, from which Python processes import PySpark as bytecode."""

from __future__ import annotations

import os
import site
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.home import home_for, package_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PySpark of this Python, with an empty cache."""
    package = tmp_path / "packages" / "pyspark"
    for name in ("bin", "jars", "python/lib"):
        (package / name).mkdir(parents=True)
    (package / "version.py").touch()
    monkeypatch.setattr("headrace.spark.home.package_home", lambda: package)
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(package.parent)])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return package


def test_it_has_everything_but_the_zipped_package(package: Path, tmp_path: Path) -> None:
    home = home_for(local=True)
    assert home is not None
    assert home.parent == tmp_path / "cache" / "headrace"
    assert {entry.name: entry.resolve() for entry in home.iterdir()} == {
        "bin": package / "bin",
        "jars": package / "jars",
    }


def test_it_follows_the_package(package: Path) -> None:
    home = home_for(local=True)
    (package / "conf").mkdir()
    (package / "conf" / "spark-defaults.conf").touch()
    assert home_for(local=True) == home
    assert home is not None
    assert (home / "conf" / "spark-defaults.conf").exists()


def test_on_a_cluster_and_where_only_this_process_finds_pyspark_it_is_the_package(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home_for(local=False) == package
    monkeypatch.setattr(site, "getsitepackages", list)
    assert home_for(local=True) == package


def test_where_it_cannot_be_made_it_is_the_package(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert home_for(local=True) == package


def test_that_of_the_environment_is_used(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert home_for(local=True) == Path("/opt/spark")


def test_workers_import_pyspark_from_its_package(spark: SparkSession) -> None:
    def place(_: int) -> str:
        import pyspark

        return os.path.dirname(pyspark.__file__)

    places = spark.sparkContext.parallelize([0], 1).map(place).collect()
    assert places == [str(package_home())]
