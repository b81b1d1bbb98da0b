"""Commands run inside this process, against servers with streams: a command takes milliseconds, not a start.

    result = invoke(url, "stream", "info", "ORDERS", "--json")

`comparable` and `steady` remove what differs between two servers that do the same: times, generated names.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.cli.command import run
from headrace.client import Client
from tests.cli.commands import Result
from tests.servers import ServerKind, keep_streams_directory, running_server

KINDS: tuple[ServerKind, ...] = ("headrace", "nats-server")

VOLATILE = {"created", "ts", "time", "first_ts", "last_ts", "last_active", "active", "pause_until"}
VOLATILE |= {"pause_remaining", "opt_start_time", "lag", "cluster"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)")
_AGO = re.compile(r"\b(just now|(\d+[dhms]){1,2} ago)")
_SEEN = re.compile(r"seen [\d.]+[µm]?s ago|not seen yet")


@contextmanager
def jetstream_server(kind: ServerKind, directory: Path, config: str = "") -> Iterator[str]:
    """The URL of a server that stores its streams in this directory."""
    with running_server(kind, config, flags=["-js", "-sd", str(directory)]) as server:
        if kind == "nats-server":
            keep_streams_directory(directory)
        yield f"nats://{server.host}:{server.port}"


def invoke(url: str, *arguments: str) -> Result:
    """Run a command that connects to this server; there is nobody to answer questions."""
    output, errors = io.BytesIO(), io.BytesIO()
    before = sys.stdout, sys.stderr, sys.stdin
    sys.stdout = io.TextIOWrapper(output, encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(errors, encoding="utf-8", write_through=True)
    sys.stdin = io.StringIO()
    try:
        code = run([*arguments, "-s", url])
        sys.stdout.flush()
        return Result(code, output.getvalue(), errors.getvalue().decode())
    finally:
        sys.stdout, sys.stderr, sys.stdin = before


def done(url: str, *arguments: str) -> Result:
    """As `invoke`, for a command that must succeed."""
    result = invoke(url, *arguments)
    assert result.code == 0, (arguments, result)
    return result


def document(url: str, *arguments: str) -> Any:
    return json.loads(done(url, *arguments, "--json").text)


def publish(url: str, stream: str, messages: list[tuple[str, bytes, list[tuple[str, str]]]]) -> None:
    """Store messages, with all acknowledgements."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    headers = [[{"key": key, "value": value} for key, value in pairs] for _, _, pairs in messages]
    with Client.connect(url) as client:
        publisher = client.publisher(stream=stream)
        publisher.publish(
            pa.array([subject for subject, _, _ in messages], pa.string()),
            pa.array([data for _, data, _ in messages], pa.binary()),
            pa.array(headers, kind),
        )
        publisher.flush()


def wait_for_acknowledgements(url: str, stream: str, consumer: str) -> None:
    """Until what `headrace consumer next` has answered to messages counts.

    nats-server deals with acknowledgements one after another, and after the command has ended. This one, of a
    message that was never delivered, changes nothing, and comes after them.
    """
    with Client.connect(url, request_timeout=30) as client:
        client.request(f"$JS.ACK.{stream}.{consumer}.1.999999.999999.1.0", b"+WPI")


def comparable(text: str) -> str:
    """A table or a list of facts without times."""
    text = _SEEN.sub("SEEN", _AGO.sub("AGO", _TIME.sub("TIME", text)))
    return re.sub(r" +", " ", text)


def steady(value: Any) -> Any:
    """A document of the API without times, generated names and what a server says of itself."""
    if isinstance(value, dict):
        return {
            key: steady(part)
            for key, part in sorted(value.items())
            if key not in VOLATILE and not key.startswith("_nats.")
        }
    if isinstance(value, list):  # nats-server has the sources of a stream in any order
        return sorted(map(steady, value), key=json.dumps)
    return value
