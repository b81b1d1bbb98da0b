"""Java's classes in an archive in the user's cache, so that the next start of Spark costs less.

At each start Java reads and checks some ten thousand classes out of Spark's jars. It can write them to an
archive when it exits (`-XX:ArchiveClassesAtExit`, AppCDS), and map that the next time. The Java of the first
command of a kind that ends on its own does so, after the command has ended; a later command finds the
archive. `python -m benchmarks.spark.start` measures what it saves.

The archive is only a convenience, so no problem with it is an error:

- There is one for each Java, each set of jars and each kind of command: its name has a digest of them. Java
  checks the jars again, and starts without an archive that does not fit.
- Each Java writes its own file, which is renamed to its final name when it has not changed for a minute: of
  two made at the same time one stays. Java writes the first bytes last, so that half an archive can be
  recognized by them.
- The name has the archive's checksum, which is compared before each use (a tenth of a second): Java does not
  notice all damage, and would crash.
- If the directory cannot be written, there is no archive. A Java that has left a few files without an
  archive in them is not asked again that day. What was not used for a month is removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
import zlib
from pathlib import Path

from headrace.spark.home import home_for
from headrace.spark.java import Java, cache_directory, find_java

DISABLE = "HEADRACE_NO_CLASS_ARCHIVE"
"""Set this variable to anything to disable the archive."""
COMPLETE_SECONDS = 60.0
BLOCK_BYTES = 1 << 20
ATTEMPTS = 3
ATTEMPT_SECONDS = 86_400.0
UNUSED_SECONDS = 30 * 86_400.0
QUIET = "-Xshare:auto -Xlog:disable"


def archive_options(kind: str, *, local: bool, make: bool) -> str:
    """Options for the Java that a session of this process would start; empty if there are none.

    `local` says whether its master runs everything in that Java.

    With `make`, Java writes an archive when it exits if there is none for this `kind` of command.
    """
    from pyspark import SparkContext

    home = home_for(local=local)
    if SparkContext._gateway is not None or home is None:
        return ""  # Java runs already
    return options_for(find_java(), home, kind, make=make)


def options_for(java: Java, spark: Path, kind: str, *, make: bool) -> str:
    """The same for this Java and the Spark in a directory."""
    directory = cache_directory() / "classes"
    if os.environ.get(DISABLE) or _has_configuration(spark) or any(map(str.isspace, str(directory))):
        return ""  # options of Java are separated by spaces
    try:
        name = f"{kind}-{_digest(java, spark)}"
        archive = _archive(directory, name) or _finished(directory, name)
        if archive:
            with contextlib.suppress(OSError):  # it may belong to another user
                archive.touch()
            return f"-XX:SharedArchiveFile={archive} {QUIET}"
        if not make or len(list(directory.glob(f"{name}.*"))) >= ATTEMPTS:
            return ""
        directory.mkdir(parents=True, exist_ok=True)
        _tidy(directory)
        attempt = directory / f"{name}.{secrets.token_hex(6)}"
        attempt.touch()
        return f"-XX:ArchiveClassesAtExit={attempt} {QUIET}"
    except OSError:
        return ""


def _archive(directory: Path, name: str) -> Path | None:
    for path in directory.glob(f"{name}-*.jsa"):
        if path.name == _named(name, path):
            return path
        path.unlink()  # it is damaged
    return None


def _finished(directory: Path, name: str) -> Path | None:
    """An archive that an earlier Java has completed, under its name from now on."""
    for attempt in directory.glob(f"{name}.*"):
        if time.time() - attempt.stat().st_mtime < COMPLETE_SECONDS or not _has_header(attempt):
            continue
        kept = attempt.rename(directory / _named(name, attempt))
        for other in directory.glob(f"{name}.*"):
            other.unlink(missing_ok=True)  # made at the same time, or useless
        return kept
    return None


def _named(name: str, path: Path) -> str:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return f"{name}-{checksum:08x}.jsa"


def _tidy(directory: Path) -> None:
    for path in directory.iterdir():
        limit = UNUSED_SECONDS if path.suffix == ".jsa" else ATTEMPT_SECONDS
        if time.time() - path.stat().st_mtime > limit:
            path.unlink(missing_ok=True)


def _has_header(path: Path) -> bool:
    with path.open("rb") as file:
        return any(file.read(4))


def _digest(java: Java, spark: Path) -> str:
    """A digest of everything that must be the same."""
    seen = hashlib.sha256(f"{java.home}\n{java.version}\n{spark}\n".encode(errors="surrogateescape"))
    release = java.home / "release"
    seen.update(release.read_bytes() if release.exists() else b"")
    for path in sorted((spark / "jars").iterdir()):
        status = path.stat()
        seen.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:16]


def _has_configuration(spark: Path) -> bool:
    """Java makes no archive if a directory with files is on its class path, as this one would be."""
    directory = Path(os.environ.get("SPARK_CONF_DIR") or spark / "conf")
    try:
        return any(directory.iterdir())
    except OSError:
        return False
