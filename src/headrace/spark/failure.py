"""The errors of the Spark integration, and how an error passes through Spark.

Our code runs in Python processes that Spark starts. What is raised there reaches the user inside a Java
exception, as text: the traceback of the worker, whose last line is the name of the exception and its message.
So an error that leaves the data source has its hint in its message, and asks Spark to leave the traceback out
(`readable_errors`): in a notebook, the first line then says what is wrong. A command that prints only that
line finds it with `reason_of`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.client.errors import (
    ApiError,
    ConnectionFailed,
    FetchFailed,
    NoResponders,
    PublishFailed,
    RequestTimeout,
)
from headrace.client.refusals import Refused
from headrace.errors import HeadraceError

WORKER_DAEMON = "headrace.spark.worker_daemon"
"""The program of Spark's Python processes, where it is not one of PySpark's."""
SERVER_ERROR = 500  # and above, as in HTTP: a cluster elects a leader, or a server starts


class SparkError(HeadraceError):
    """PySpark or Java is missing, or Spark did not start. One line says which, the hint what to do."""


class DataSourceError(HeadraceError):
    """The data source cannot do what was asked: an option, an offset, a column or the server is wrong."""


class DataLossError(DataSourceError):
    """Messages that the query still had to read are no longer in the stream."""


class PassingError(DataSourceError):
    """A failure that may pass: the server is away or does not answer. `recovery` restarts the query."""


_OURS = re.compile(rf"{re.escape(__name__)}\.\w+: (.+)$", re.MULTILINE)
_WAITED = "Exception thrown in awaitResult:"
"""All Spark says when it has waited for another part of itself; the reason is in the cause."""
_RUNS_TWICE = "[CONCURRENT_STREAM_LOG_UPDATE]"
_TRACEBACK = "Traceback (most recent call last):"
_CALLING_JAVA = "An error occurred while calling "
_RAISED = re.compile(
    r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Failed|Missing|Found): (.+)$", re.MULTILINE
)
_CAUSE = re.compile(r"^[\s:]*(?:Caused by: )?[\w.$]+(?:Exception|Error|Failed): (.+)$", re.MULTILINE)


@contextmanager
def readable_errors() -> Iterator[None]:
    """At the boundary to Spark: errors leave with their hint in the message, and without our inner frames."""
    try:
        yield
    except HeadraceError as error:
        _leave_traceback_out()
        raise _kind(error)(in_one_line(error)) from None


def _kind(error: HeadraceError) -> type[DataSourceError]:
    """Only the name of the class arrives on the other side of Spark."""
    if isinstance(error, DataSourceError):
        return type(error)
    return PassingError if _is_passing(error) else DataSourceError


def _is_passing(error: HeadraceError) -> bool:
    match error:
        case Refused():
            return False
        case ApiError():
            return error.code >= SERVER_ERROR
        case PublishFailed():
            return not error.description  # no description from the server, so it did not refuse the message
        case _:
            return isinstance(error, ConnectionFailed | NoResponders | RequestTimeout | FetchFailed)


def _leave_traceback_out() -> None:
    """Leave the traceback out of what Spark's Python process, if this is one, is about to report.

    Spark reads this variable when it reports an exception. The process ends right after that, so the
    tracebacks of a user's own functions are not affected. HEADRACE_TRACEBACK=1 keeps ours.
    """
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    names = ("pyspark.", WORKER_DAEMON)
    if program and program.name.startswith(names) and not os.environ.get("HEADRACE_TRACEBACK"):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"


def in_one_line(error: HeadraceError) -> str:
    """Message and hint."""
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{text}; {error.hint}" if error.hint else text


def java_causes(error: BaseException) -> str:
    """What Java says about the cause of an exception of PySpark, which leaves it out of its text."""
    return str(getattr(getattr(error, "_cause", None), "_stackTrace", None) or "")


def reason_of(error: BaseException) -> str:
    """The line of an exception from Spark that says what is wrong."""
    if isinstance(error, HeadraceError):
        return in_one_line(error)
    text = str(error)
    if _WAITED in text and (causes := _CAUSE.findall(java_causes(error))):
        return str(causes[-1]).strip()
    if ours := _OURS.search(text):
        return ours[1].strip()
    if _RUNS_TWICE in text:
        return "another process runs this query, with the same checkpoint; stop one, and restart the other"
    told = text.rpartition(_TRACEBACK)[2] if _TRACEBACK in text else ""
    raised = _RAISED.findall(told)
    if raised and raised[0].startswith(_CALLING_JAVA):  # the causes are Java's, and follow
        causes = [cause.strip() for cause in _CAUSE.findall(told) if not cause.startswith(_CALLING_JAVA)]
        return _first_and_last(causes or raised)
    if raised:
        return str(raised[0]).strip()  # in a worker; the rest is Java's stack
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("["):
        return lines[0]  # Spark's own error class and sentence: `[TABLE_OR_VIEW_NOT_FOUND] The table …`
    return next(iter([cause.strip() for cause in _CAUSE.findall(text)] or lines), type(error).__name__)


def _first_and_last(causes: list[str]) -> str:
    """What Spark was doing, and why it failed: a full disk is the last of several causes."""
    first, last = causes[0], causes[-1]
    return first if first == last else f"{first.rstrip('.')}: {last}"
