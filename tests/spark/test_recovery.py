"""Which failures of a query may pass, as Spark tells them, and how often it is restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.client.errors import (
    ApiError,
    ConnectionFailed,
    FetchFailed,
    NoResponders,
    PublishFailed,
    RequestTimeout,
    StreamNotFound,
)
from headrace.client.refusals import Refused
from headrace.errors import HeadraceError, UsageError
from headrace.spark.failure import DataLossError, DataSourceError, PassingError, readable_errors, reason_of
from headrace.spark.recovery import LONGEST_PAUSE_SECONDS, SETTLED_SECONDS, Attempts, may_pass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_A_BATCH = """\
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/opt/pyspark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
{}
=== Streaming Query ===
Identifier: raw java.net.ConnectException: in the text of a query
"""
LOST_TASK = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed 4 times, "
    "most recent failure: Lost task 0.3 in stage 4.0 (TID 6) (10.0.0.8 executor 3): "
)
IN_A_WORKER = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"


@pytest.mark.parametrize(
    "text",
    [
        LOST_TASK
        + "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: code 137",
        LOST_TASK + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).",
        "org.apache.spark.SparkException: Python worker failed to connect back.",
        IN_A_WORKER + "headrace.spark.failure.PassingError: no server listens at 127.0.0.1:4222",
        "java.net.ConnectException: Call From here to namenode:9000 failed on connection exception",
        "java.net.SocketTimeoutException: Read timed out",
        "java.io.IOException: No space left on device",
        "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "OSError: Generic S3 error: error sending request: operation timed out",
        "org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat org.apache.spark.util.X",
    ],
)
def test_what_may_pass_is_recognized(text: str) -> None:
    assert may_pass(RuntimeError(text))
    assert may_pass(RuntimeError(IN_A_BATCH.format(text)))


@pytest.mark.parametrize(
    "text",
    [
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `orders` cannot be found.",
        '[CAST_INVALID_INPUT] The value \'a\' of the type "STRING" cannot be cast to "INT"',
        IN_A_WORKER + "ValueError: bad row",
        IN_A_WORKER + "headrace.spark.failure.DataSourceError: the server does not accept these credentials",
        IN_A_WORKER + "headrace.spark.failure.DataLossError: messages were removed before they were read",
        "headrace.errors.UsageError: the table in t has format delta, not parquet",
        "IllegalStateException: Cannot call methods on a stopped SparkContext.\nExecutorLostFailure",
        "java.io.FileNotFoundException: /state/metadata (Permission denied)",
        "RuntimeError: something else",
        "org.apache.spark.SparkException: Exception thrown in awaitResult: \nCaused by: a.b.Exception: bad",
    ],
)
def test_what_would_happen_again_is_recognized(text: str) -> None:
    assert not may_pass(RuntimeError(text))
    assert not may_pass(RuntimeError(IN_A_BATCH.format(text)))


def test_a_query_that_runs_twice_is_told_what_to_do() -> None:
    error = RuntimeError(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [CONCURRENT_STREAM_LOG_UPDATE] "
        "Concurrent update to the log. Multiple streaming jobs detected for 1.\nPlease make sure only one"
    )
    assert reason_of(error) == (
        "another process runs this query, with the same checkpoint; stop one, and restart the other"
    )
    assert not may_pass(error)


def test_an_error_that_a_query_could_not_start_with_is_judged_by_its_cause() -> None:
    error = UsageError("shop.yml:3: the sink raw cannot be started")
    assert not may_pass(error)
    error.__context__ = RuntimeError("java.net.ConnectException: refused")
    assert may_pass(error)


@pytest.mark.parametrize(
    ("why", "passes"),
    [("java.net.ConnectException", True), ("java.lang.ArithmeticException", False), ("", True)],
)
def test_what_spark_waited_for_is_judged_by_the_cause_that_only_java_names(
    spark: SparkSession, why: str, passes: bool
) -> None:
    from pyspark.errors.exceptions.captured import StreamingQueryException

    java = spark.sparkContext._gateway.jvm
    text = "Exception thrown in awaitResult: "
    cause = getattr(java, why)("because of this") if why else None
    failed = java.org.apache.spark.SparkException(text, cause)
    error = StreamingQueryException(f"{text}\n=== Streaming Query ===\n", "", failed)
    assert may_pass(error) is passes
    assert reason_of(error) == ("because of this" if why else text.strip())


def test_an_error_that_spark_calls_a_failure_is_a_reason_too() -> None:
    text = "Exception thrown in awaitResult: "

    class Cause(Exception):
        _stackTrace = f"a.SparkException: {text}\n\tat a.b(c)\nCaused by: a.ValidationFailed: [X] it failed\n"  # noqa: N815

    class Waited(Exception):
        _cause = Cause()

    assert reason_of(Waited(text)) == "[X] it failed"


def api_error(code: int) -> ApiError:
    return ApiError("no", code=code, err_code=10008, description="no")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionFailed("no server listens"), PassingError),
        (RequestTimeout("no response"), PassingError),
        (NoResponders("nobody"), PassingError),
        (FetchFailed("no messages"), PassingError),
        (PublishFailed("no acknowledgement"), PassingError),
        (api_error(503), PassingError),
        (api_error(400), DataSourceError),
        (StreamNotFound("no stream", code=404, err_code=10059, description="not found"), DataSourceError),
        (PublishFailed("refused", description="maximum bytes exceeded"), DataSourceError),
        (Refused("these credentials"), DataSourceError),
        (UsageError("an option"), DataSourceError),
        (DataLossError("gone"), DataLossError),
    ],
)
def test_the_class_of_an_error_says_on_the_other_side_of_spark_whether_it_may_pass(
    error: HeadraceError, kind: type[DataSourceError]
) -> None:
    with pytest.raises(DataSourceError) as raised, readable_errors():
        raise error
    assert type(raised.value) is kind


def test_pauses_grow_and_end_after_a_number_of_failures_in_a_row() -> None:
    attempts = Attempts(limit=7)
    pauses = [attempts.pause_after(-1, 0.1) for _ in range(8)]
    assert pauses == [1, 2, 4, 8, 16, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, None]


@pytest.mark.parametrize(("batch", "seconds"), [(1, 0.1), (0, SETTLED_SECONDS + 1)])
def test_a_completed_batch_or_a_long_run_counts_as_a_success(batch: int, seconds: float) -> None:
    attempts = Attempts(limit=2)
    assert [attempts.pause_after(0, 0.1) for _ in range(2)] == [1, 2]
    assert [attempts.pause_after(batch, seconds), attempts.pause_after(batch, 0.1)] == [1, 2]
    assert attempts.pause_after(batch, 0.1) is None
