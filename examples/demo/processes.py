"""The pipeline as a process: `headrace pipeline run`, with Java and Spark's workers below it.

It gets a session of its own, so that Ctrl-C on the terminal reaches only the demo, which then stops things in
order, and so that all that it starts can be found: Spark's workers leave the process group, but not the
session.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SHOP = Path(__file__).parents[1] / "shop"
READY = "headrace: running "
START_SECONDS = 300.0
STOP_SECONDS = 30.0
GONE_SECONDS = 10.0
POLL_SECONDS = 0.05
# A run is over before Java's second compiler could pay off; without it more of the cores is left for Spark.
JAVA_OPTIONS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Failure(Exception):
    """Something does not work or does not add up; the text is for people."""


def copy_shop(directory: Path) -> Path:
    """The shop's pipeline next to its data: paths in the file are relative to it."""
    directory.mkdir(parents=True)
    for path in SHOP.iterdir():
        if path.suffix in (".yml", ".py"):
            shutil.copy(path, directory)
    return directory / "shop.yml"


class PipelineProcess:
    def __init__(self, file: Path, url: str, log: Path) -> None:
        self._log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "pipeline", "run", str(file), "--server", url],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=JAVA_OPTIONS | os.environ,
            )
        self._deadline = time.monotonic() + START_SECONDS

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_ready(self) -> bool:
        """Whether all queries run. Raises Failure if it has ended, or does not get there."""
        if READY in self._said():
            return True
        self.check()
        if time.monotonic() > self._deadline:
            raise Failure(
                f"the pipeline was not up after {START_SECONDS:.0f} seconds; it said:\n{self._said()}"
            )
        return False

    def check(self) -> None:
        """Raises Failure if it has ended."""
        if self._process.poll() is not None:
            last = "\n".join(self._said().splitlines()[-5:])
            raise Failure(f"the pipeline ended with exit code {self._process.returncode}; it said:\n{last}")

    def kill(self) -> int:
        """SIGKILL for it, its Java and its workers. Returns how many processes that were."""
        killed: set[int] = set()
        deadline = time.monotonic() + GONE_SECONDS
        while members := _session(self.pid):
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
                    killed.add(member)
            self._process.poll()  # so that it does not stay as a zombie
            if time.monotonic() > deadline:
                raise Failure(f"processes of the pipeline cannot be killed: {members}")
            time.sleep(POLL_SECONDS)
        self._process.wait()
        return len(killed)

    def stop(self) -> None:
        """As Ctrl-C does; what is left after that is killed."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
        deadline = time.monotonic() + GONE_SECONDS
        while _session(self.pid) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)  # workers end by themselves
        self.kill()

    def _said(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


def _session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # pid (name) state parent group session ...: the name may hold anything, including brackets and
            # spaces
            fields = re.sub(r"^.*\) ", "", path.read_text(errors="replace"), flags=re.DOTALL).split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(path.parent.name))
    return found
