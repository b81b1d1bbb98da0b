"""`headrace check connection` and `headrace check request`."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import parse_headers, subject_to_publish
from headrace.cli.check.result import Result
from headrace.cli.check.runner import Report, report_options, run_check
from headrace.cli.check.thresholds import duration_option, regular_expression
from headrace.cli.human import duration
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream

ANSWER_SECONDS = 5.0


@click.command()
@connection_options
@duration_option("--connect-warn", "500ms", "Warn if connecting takes this long.")
@duration_option("--connect-critical", "1s", "Critical if connecting takes this long.")
@duration_option("--rtt-warn", "500ms", "Warn if a ping takes this long.")
@duration_option("--rtt-critical", "1s", "Critical if a ping takes this long.")
@duration_option("--req-warn", "500ms", "Warn if a message to ourselves takes this long.")
@duration_option("--req-critical", "1s", "Critical if a message to ourselves takes this long.")
@report_options
def connection(target: Target, report: Report, **limits: float) -> int:
    """Connect, ping, and send a message to ourselves."""

    async def work(result: Result, jetstream: JetStream) -> None:
        client = jetstream.connection
        warn, crit = limits["connect_warn"], limits["connect_critical"]
        took = client.connect_seconds
        result.measure("connect_time", took, "Time taken to connect to NATS", warn=warn, crit=crit, unit="s")
        result.compare(took, warn, crit, f"connected to {client.address} in {_shown(took)}")

        start = time.monotonic()
        await client.flush(ANSWER_SECONDS)
        took, warn, crit = time.monotonic() - start, limits["rtt_warn"], limits["rtt_critical"]
        text = "The round-trip-time of the connection"
        result.measure("rtt", took, text, warn=warn, crit=crit, unit="s")
        result.compare(took, warn, crit, f"rtt time {_shown(took)}")

        took, warn, crit = await _echo(jetstream), limits["req_warn"], limits["req_critical"]
        text = "Time taken for a full Request-Reply operation"
        result.measure("request_time", took, text, warn=warn, crit=crit, unit="s")
        result.compare(took, warn, crit, f"round trip took {_shown(took)}")

    return run_check(report, Result("connections", "Connection"), target, work)


async def _echo(jetstream: JetStream) -> float:
    """How long a message to ourselves takes. Raises HeadraceError if it is not what was sent."""
    import asyncio
    import secrets

    client = jetstream.connection.client
    inbox, payload = client.new_inbox(), secrets.token_hex(50).encode()
    answers: asyncio.Queue[Any] = asyncio.Queue()
    await client.subscribe(inbox, cb=answers.put)
    start = time.monotonic()
    await client.publish(inbox, payload)
    try:
        answer = await jetstream.connection.wait_for(answers.get(), ANSWER_SECONDS)
    except TimeoutError:
        raise HeadraceError(f"did not receive from {inbox} within {ANSWER_SECONDS:g} s") from None
    if answer.data != payload:
        raise HeadraceError("did not receive expected message")
    return time.monotonic() - start


def _shown(seconds: float) -> str:
    return duration(round(seconds * NANOSECONDS))


@click.command()
@connection_options
@click.option("--subject", required=True, callback=subject_to_publish, help="Where to send the request.")
@click.option("--payload", default="", metavar="TEXT", help="What to send.")
@click.option("--headers", "-H", multiple=True, metavar="'NAME: VALUE'", help="Header to send; repeatable.")
@click.option(
    "--match-payload", callback=regular_expression, metavar="REGEX", help="What the response must match."
)
@click.option(
    "--match-headers", multiple=True, metavar="'NAME: VALUE'", help="Header of the response; repeatable."
)
@duration_option("--response-critical", None, "Critical if the response takes longer.")
@duration_option("--response-warn", None, "Warn if the response takes longer.")
@report_options
def request(
    target: Target,
    report: Report,
    subject: str,
    payload: str,
    headers: tuple[str, ...],
    match_payload: re.Pattern[str] | None,
    match_headers: tuple[str, ...],
    response_critical: float,
    response_warn: float,
) -> int:
    """Send a request to a service, and check the response."""
    import nats.errors

    sent, wanted = parse_headers(headers), parse_headers(match_headers) or {}

    async def work(result: Result, jetstream: JetStream) -> None:
        client = jetstream.connection.client
        start = time.monotonic()
        asked = client.request(subject, payload.encode(), timeout=ANSWER_SECONDS, headers=sent)
        try:
            answer = await jetstream.connection.wait_for(asked)
        except nats.errors.NoRespondersError:
            raise HeadraceError(f"could not send request: no responders on {subject}") from None
        except nats.errors.TimeoutError:
            raise HeadraceError(f"no response from {subject} within {ANSWER_SECONDS:g} s") from None
        took = time.monotonic() - start
        result.measure(
            "time", took, "How long the request took", warn=response_warn, crit=response_critical, unit="s"
        )
        if match_payload and not match_payload.search(answer.data.decode(errors="replace")):
            result.critical("response does not match regexp")
        for name, value in wanted.items():
            if (found := (answer.headers or {}).get(name)) != value:
                result.critical(f"invalid header {name} = {found!r}")
        result.compare(took, response_warn, response_critical, f"response took {_shown(took)}")

    return run_check(report, Result("request", subject), target, work)
