"""The log: its lines, its files, and that it never blocks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.logs import MAX_QUEUED_BYTES, Logger, LogSettings

TIME = r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6}"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_lines_look_like_those_of_nats_server(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "log"), debug=True, trace=True))
    logger.info("one")
    logger.warn("two")
    logger.error("three")
    logger.debug("four")
    logger.trace("five")
    logger.fatal("six")
    logger.close()
    pid = os.getpid()
    labels = ["INF", "WRN", "ERR", "DBG", "TRC", "FTL"]
    texts = ["one", "two", "three", "four", "five", "six"]
    for line, label, text in zip(lines(tmp_path / "log"), labels, texts, strict=True):
        assert re.fullmatch(rf"\[{pid}\] {TIME} \[{label}\] {text}", line)


def test_without_logtime_only_the_time_is_missing(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "log"), logtime=False))
    logger.info("  indented")
    logger.close()
    assert lines(tmp_path / "log") == [f"[{os.getpid()}] [INF]   indented"]


def test_debug_and_trace_are_off_unless_asked_for(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "log"), logtime=False))
    assert (logger.debug_enabled, logger.trace_enabled) == (False, False)
    logger.debug("no")
    logger.trace("no")
    logger.configure(LogSettings(path=str(tmp_path / "log"), logtime=False, debug=True))
    logger.debug("yes")
    logger.trace("no")
    logger.close()
    assert lines(tmp_path / "log") == [f"[{os.getpid()}] [DBG] yes"]


def test_a_text_from_a_peer_stays_on_its_line(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "log"), logtime=False))
    logger.info("a\r\nb\x1b[31m\x00 é \udcff")
    logger.close()
    assert (tmp_path / "log").read_bytes().split(b"] ")[-1] == "a\\r\\nb\\x1b[31m\\x00 é \\udcff\n".encode()


def test_a_file_that_cannot_be_opened_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"error opening file: open .*: no such file or directory"):
        Logger(LogSettings(path=str(tmp_path / "none" / "log")))
    logger = Logger(LogSettings(path=str(tmp_path / "log"), logtime=False))
    with pytest.raises(ConfigError):
        logger.configure(LogSettings(path=str(tmp_path / "none" / "log")))
    logger.info("still here")
    logger.close()
    assert lines(tmp_path / "log") == [f"[{os.getpid()}] [INF] still here"]


def test_reopen_continues_in_a_new_file_after_a_move(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "log"), logtime=False))
    logger.info("before")
    assert logger.flush(30)
    (tmp_path / "log").rename(tmp_path / "old")
    logger.info("to the old one")
    logger.reopen()
    logger.info("after")
    logger.close()
    prefix = f"[{os.getpid()}] [INF] "
    assert lines(tmp_path / "old") == [prefix + "before", prefix + "to the old one"]
    assert lines(tmp_path / "log") == [prefix + "File log re-opened", prefix + "after"]


def test_configure_moves_to_another_file(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "one"), logtime=False))
    logger.info("one")
    logger.configure(LogSettings(path=str(tmp_path / "two"), logtime=False))
    logger.info("two")
    logger.close()
    assert [len(lines(tmp_path / name)) for name in ("one", "two")] == [1, 1]


def test_a_full_file_is_rotated_and_old_ones_are_removed(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "log"), size_limit=200, max_files=3))
    (tmp_path / "log.other").write_text("not ours")
    for number in range(40):
        logger.info(f"line {number}")
        assert logger.flush(30)
    logger.close()
    backups = sorted(
        path for path in tmp_path.iterdir() if re.fullmatch(r"log\.\d{4}(\.\d\d){5}\.\d{9}", path.name)
    )
    assert len(backups) == 2
    assert (tmp_path / "log.other").exists()
    assert "Rotated log, backup saved as" in lines(tmp_path / "log")[0]
    text = "".join(path.read_text() for path in [*backups, tmp_path / "log"])
    written = [int(number) for number in re.findall(r"line (\d+)", text)]
    assert written == list(range(written[0], 40))


def test_a_closed_log_takes_lines_without_complaint(tmp_path: Path) -> None:
    logger = Logger(LogSettings(path=str(tmp_path / "log")))
    logger.close()
    logger.info("too late")
    logger.close()
    assert lines(tmp_path / "log") == []


# Run in a process of its own, whose stderr is a pipe. It says on stdout when it has logged all.
FLOOD = f"""
import sys
from headrace.logs import Logger, LogSettings
logger = Logger(LogSettings(logtime=False))
logger.info("first")
line = "x" * 1000
for _ in range(2 * {MAX_QUEUED_BYTES} // 1000):
    logger.info(line)
print("logged", flush=True)
sys.stdin.readline()
assert logger.flush(30)
logger.info("last")
logger.close(30)
"""


def start(script: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_pipe_that_nobody_reads_does_not_block_and_losses_are_counted() -> None:
    with start(FLOOD) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "logged\n"  # with nothing of its stderr read
        _, errors = process.communicate("go on\n", timeout=50)
    assert process.returncode == 0
    written = errors.splitlines()
    dropped = [int(count) for count in re.findall(r"\[WRN\] (\d+) log lines were dropped", errors)]
    whole = sum(line.endswith("x" * 1000) for line in written)
    assert whole + sum(dropped) == 2 * MAX_QUEUED_BYTES // 1000
    assert sum(dropped) > 0
    assert written[0].endswith("[INF] first")
    assert written[-1].endswith("[INF] last")


def test_a_process_ends_although_nobody_reads_its_log() -> None:
    script = FLOOD.replace("assert logger.flush(30)", "").replace("logger.close(30)", "logger.close(0.1)")
    with start(script) as process:
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.wait(40) == 0
        process.kill()


def test_a_closed_stderr_does_no_harm() -> None:
    script = "import os; os.close(2)\nfrom headrace.logs import Logger, LogSettings\n"
    script += "logger = Logger(LogSettings())\nlogger.info('x')\nlogger.close()\nprint('fine')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert (result.returncode, result.stdout) == (0, "fine\n")
