"""The duplicate window: how long a stream recognizes a message that is published again.

A query that was stopped repeats its last batch when it is restarted. If the stream has forgotten the ids by
then, messages of that batch are duplicated. nats-server's default is 2 minutes, about as long as a reboot, so
a sink prints a warning if the window is shorter than RESTART_SECONDS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.spark.notice import warn

if TYPE_CHECKING:
    from headrace.client import Client

RESTART_SECONDS = 600
NANOSECONDS = 1_000_000_000

_checked: set[str] = set()


def warning_about(client: Client, subject: str) -> str | None:
    """The warning about the stream that stores this subject; None if there is no problem or no stream."""
    warnings = (warning_about_stream(client, stream) for stream in client.stream_names(subject))
    return next(filter(None, warnings), None)


def warning_about_stream(client: Client, stream: str) -> str | None:
    window = client.stream_info(stream).duplicate_window
    if window >= RESTART_SECONDS * NANOSECONDS:
        return None
    return (
        f"the stream {stream} recognises duplicates for {window / NANOSECONDS:g} s: a query that "
        f"restarts later than that can write duplicates; give it a duplicate_window of "
        f"{RESTART_SECONDS} s or more"
    )


def warn_if_short(client: Client, subjects: Any) -> None:
    """Print it to stderr, which Spark puts into its log; once per process and subject."""
    subject = subjects if isinstance(subjects, str) else subjects[0].as_py()
    if subject in _checked:
        return
    _checked.add(subject)
    try:
        warning = warning_about(client, subject)
    except HeadraceError:
        return  # a user that may only publish may not ask
    if warning:
        warn(warning)
