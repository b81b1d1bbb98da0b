"""`headrace check message` and `headrace check kv`."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import name_of_stream, subject_to_subscribe
from headrace.cli.check.result import Result
from headrace.cli.check.runner import Report, report_options, run_check
from headrace.cli.check.thresholds import count_option, duration_option, regular_expression
from headrace.cli.human import duration
from headrace.cli.kv.names import bucket_name, key_name
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream


@click.command()
@connection_options
@click.option("--stream", required=True, callback=name_of_stream, metavar="NAME", help="The stream.")
@click.option(
    "--subject",
    default=">",
    callback=subject_to_subscribe,
    help="The last message of this subject. [default: >]",
)
@duration_option("--age-warn", None, "Warn if the message is older.")
@duration_option("--age-critical", None, "Critical if the message is older.")
@click.option(
    "--content",
    default=".",
    callback=regular_expression,
    metavar="REGEX",
    help="What it must match. [default: .]",
)
@click.option("--body-timestamp", is_flag=True, help="Its time is its content, in seconds since 1970.")
@report_options
def message(
    target: Target,
    report: Report,
    stream: str,
    subject: str,
    age_warn: float,
    age_critical: float,
    content: re.Pattern[str],
    body_timestamp: bool,
) -> int:
    """Check the last message of a stream: its age and its content."""

    async def work(result: Result, jetstream: JetStream) -> None:
        info = await jetstream.stream(stream)
        if info is None:
            raise HeadraceError(f"msg load failed: there is no stream {stream}")
        found = await jetstream.message(info, last_by_subj=subject)
        if found is None:
            raise HeadraceError("no message found")
        stored = found.time
        if body_timestamp:
            try:
                stored = int(found.data) * NANOSECONDS
            except ValueError:
                raise HeadraceError("invalid timestamp body") from None
        age = (time.time_ns() - stored) / NANOSECONDS
        result.measure("age", age, "The age of the message", warn=age_warn, crit=age_critical, unit="s")
        result.measure("size", len(found.data), "The size of the message", unit="B")
        if age_warn or age_critical:
            result.compare(age, age_warn, age_critical, f"{duration(round(age * NANOSECONDS))} old")
        if not content.search(found.data.decode(errors="replace")):
            result.critical(f"does not match regex: {content.pattern}")
        if not result.criticals and not result.warnings:
            result.ok(f"Valid message on {stream} > {subject}")

    return run_check(report, Result("message", "Stream Message"), target, work)


@click.command()
@connection_options
@click.option("--bucket", required=True, callback=bucket_name, metavar="NAME", help="The bucket to check.")
@count_option(
    "--values-critical", "Critical if there are this many values; if less than the other, this few.", -1
)
@count_option("--values-warn", "Warn if there are this many values.", -1)
@click.option("--key", callback=key_name, metavar="KEY", help="Critical unless this key has a value.")
@report_options
def kv(
    target: Target, report: Report, bucket: str, values_critical: int, values_warn: int, key: str | None
) -> int:
    """Check a key-value bucket."""
    from headrace.cli.kv.bucket import KeyMissingError, open_bucket

    async def work(result: Result, jetstream: JetStream) -> None:
        opened = await open_bucket(jetstream, bucket)
        result.ok(f"bucket {bucket}")
        state = opened.info["state"]
        count, warn, crit = state["messages"], max(0, values_warn), max(0, values_critical)
        result.measure("values", count, "How many values are stored in the bucket", warn=warn, crit=crit)
        if key is not None:
            try:
                await opened.get(key)
                result.ok(f"key {key} found")
            except KeyMissingError as error:
                result.critical(str(error))
        if values_warn > -1 or values_critical > -1:
            result.compare(count, values_warn, values_critical, f"{count} values", none=-1, invertible=True)
        result.measure("bytes", state["bytes"], "Bytes stored in the bucket", unit="B")
        result.measure("replicas", opened.config.get("num_replicas", 1), "Replicas of the bucket")

    return run_check(report, Result("kv", bucket), target, work)
