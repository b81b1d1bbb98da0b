"""The SPARK_HOME of the Spark that we start: that of PySpark's package, without its zipped copy of itself.

Java puts `python/lib/pyspark.zip` of its home in front of every path of the Python processes that it starts:
one for each streaming query, one for each batch of our sink, one from which the workers of tasks are forked.
Python keeps no bytecode for what it imports from a zip file, so each of them compiles PySpark again, which is
most of its start (`python -m benchmarks.spark.start`). With a home that has no such file they import the
package itself, which the same Python has on its path anyway.

The home is a directory of links in the user's cache, one for each PySpark. Like the archive of classes it is
only a convenience: if it cannot be made, Spark starts with the package's own directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import site
from pathlib import Path

from headrace.spark.java import cache_directory

NOT_LINKED = "python"


def package_home() -> Path | None:
    """The directory of PySpark's package; None if there is none."""
    spark = importlib.util.find_spec("pyspark")
    places = spark.submodule_search_locations if spark else None
    return Path(places[0]) if places else None


def home_for(*, local: bool) -> Path | None:
    """SPARK_HOME for the Java that we start; None if there is no PySpark.

    The environment's, if it has one. Processes on other machines have only what their own Spark gives them,
    so only a `local` master can do without the zip file.
    """
    chosen = os.environ.get("SPARK_HOME")
    if chosen:
        return Path(chosen)
    package = package_home()
    if package is None or not local or not _is_installed(package):
        return package
    try:
        return _linked(package)
    except OSError:
        return package


def _is_installed(package: Path) -> bool:
    """Whether every process of this Python finds the package, not just this one."""
    return str(package.parent) in (*site.getsitepackages(), site.getusersitepackages())


def _linked(package: Path) -> Path:
    home = cache_directory() / f"spark-{hashlib.sha256(os.fsencode(package)).hexdigest()[:12]}"
    home.mkdir(parents=True, exist_ok=True)
    for entry in package.iterdir():
        if entry.is_dir() and entry.name != NOT_LINKED and not (home / entry.name).is_symlink():
            with contextlib.suppress(FileExistsError):  # another process has just made it
                (home / entry.name).symlink_to(entry)
    return home
