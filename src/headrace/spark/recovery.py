"""Which failures of a query may pass, and how long to wait before it is restarted.

A failure comes out of Spark as text: our own errors, Java's and those of the libraries in it, nested in each
other. So there is a list of failures that may pass: the server or a store is away, a connection broke, an
executor or a Python process died. A failure that is not in it (bad SQL, credentials, data loss, a table that
is refused) would happen again, so the query ends with it.

A restarted query resumes from its checkpoint. It waits longer each time it fails without having completed a
batch, and gives up after a number of such failures, so that an error that only looks as if it would pass
ends, too.
"""

from __future__ import annotations

import re

from headrace.spark.failure import PassingError, java_causes

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
ATTEMPTS = 10
SETTLED_SECONDS = 300.0
"""A query that ran for longer had settled, even if there was nothing to read."""

# After this line Spark describes the query, with names and texts of the user.
_DESCRIPTION = "=== Streaming Query ==="
_OURS = re.compile(r"\bheadrace(?:\.\w+)+\.(\w+)(?=: )")
_GONE = "stopped SparkContext"
_PASSING = re.compile(
    "|".join(
        (
            # Spark: a machine or a process is gone
            r"ExecutorLostFailure",
            r"Python worker failed to connect back",
            r"Python worker exited unexpectedly",
            r"FetchFailedException",
            r"Executor heartbeat timed out",
            r"RpcTimeoutException",
            # Spark waited for a part of itself, and does not say why that failed, not even in a cause
            r"Exception thrown in awaitResult:\s*$(?![\s\S]*Caused by: )",
            # Java: connections, also to stores
            r"java\.net\.(?:\w*Connect|Socket|SocketTimeout|UnknownHost|NoRouteToHost|PortUnreachable)Exception",
            r"java\.util\.concurrent\.TimeoutException",
            r"java\.nio\.channels\.ClosedChannelException",
            r"java\.io\.IOException: (?:Connection|Broken pipe|No space left)",
            # Python, including functions of the user: the same
            r"^(?:\w+\.)*(?:Connection\w*|BrokenPipe|Timeout)Error: ",
            r"^OSError: .*\b(?:timed out|onnection|No space left)",
        )
    ),
    re.MULTILINE,
)


def may_pass(error: BaseException) -> bool:
    """Whether the query is worth another try."""
    text = f"{str(error).partition(_DESCRIPTION)[0]}\n{java_causes(error)}"
    if _GONE in text:
        return False  # nothing can be started in this session any more
    if ours := _OURS.findall(text):
        return str(ours[-1]) == PassingError.__name__
    if _PASSING.search(text):
        return True
    cause = error.__cause__ or error.__context__
    return cause is not None and may_pass(cause)


class Attempts:
    """Counts the failures of one query in a row: without a completed batch or a long quiet run in between."""

    def __init__(self, limit: int = ATTEMPTS) -> None:
        self.limit = limit
        self.failures = 0
        self._batch = -1

    def pause_after(self, batch: int, seconds: float) -> float | None:
        """The seconds to wait after a failure; None: give up.

        `batch` is the last one that the query completed, `seconds` how long it ran this time.
        """
        if batch > self._batch or seconds > SETTLED_SECONDS:
            self._batch, self.failures = batch, 0
        self.failures += 1
        if self.failures > self.limit:
            return None
        return float(min(FIRST_PAUSE_SECONDS * 2 ** (self.failures - 1), LONGEST_PAUSE_SECONDS))
