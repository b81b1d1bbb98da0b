"""Workloads against a server that demands TLS and .creds: every message is counted, as without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.bench.compare import Row, compare
from headrace.bench.failure import BenchError
from headrace.bench.servers import find_server
from headrace.bench.suites import FULL, choose_rows
from headrace.bench.wire import BATCH_CONNECTIONS, greet
from headrace.bench.workloads.fixed_rate import FixedRate
from headrace.bench.workloads.idle_connections import IdleConnections
from headrace.bench.workloads.many_subjects import ManySubjects
from headrace.bench.workloads.publish_subscribe import PublishSubscribe
from headrace.bench.workloads.request_reply import RequestReply
from headrace.bench.workloads.stream_consume import StreamConsume
from headrace.bench.workloads.stream_publish import StreamPublish
from headrace.bench.workloads.tls_handshakes import TlsHandshakes
from headrace.bench.workloads.workload import Workload
from headrace.client.addresses import Address
from headrace.client.credentials import Credentials
from headrace.client.tls import Tls
from tests.certificates import Authority
from tests.client.operators import SECURE_KINDS, Operator
from tests.servers import ServerKind, running_server


@pytest.fixture(scope="module", params=[(kind, first) for kind in SECURE_KINDS for first in (False, True)])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    kind, first = request.param
    directory = tmp_path_factory.mktemp("guarded")
    authority, operator = Authority(directory), Operator()
    issued = authority.issue("server")
    config = (
        f'{operator.config()}tls {{ cert_file: "{issued.certificate}", key_file: "{issued.key}", '
        f'handshake_first: {str(first).lower()} }}\njetstream {{ store_dir: "{directory}/store" }}'
    )
    with running_server(kind, config) as server:
        yield Address(
            server.host,
            server.port,
            secure=True,
            identity=Credentials(creds=operator.creds()),
            tls=Tls(ca=authority.certificate, handshake_first=first),
        )


WORKLOADS = {
    "small": PublishSubscribe(publishers=2, subscribers=3, size=128, messages=20_000),
    "large": PublishSubscribe(publishers=1, subscribers=2, size=900_000, messages=20),
    "processes": PublishSubscribe(publishers=2, subscribers=2, size=16, messages=2_000, processes=2),
    "request": RequestReply(requesters=2, responders=1, size=16, requests=500, in_flight=16),
    "latency": FixedRate(publishers=1, subscribers=1, size=16, rate=1_000, duration=0.2),
    "subjects": ManySubjects(publishers=1, subscribers=1, size=16, messages=2_000, subjects=100),
    "connections": IdleConnections(connections=5, settle_seconds=0),
    "handshakes": TlsHandshakes(connections=BATCH_CONNECTIONS + 1),
    "stream-publish": StreamPublish(publishers=1, size=16, messages=2_000, in_flight=256),
    "stream-consume": StreamConsume(batch=500, consumers=1, size=16, messages=2_000),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_runs_over_tls_with_creds(guarded: Address, name: str) -> None:
    workload: Workload = WORKLOADS[name]
    with workload.prepared(guarded) as ready:
        assert ready.run(guarded, lambda: 0).value >= 0


@pytest.mark.parametrize("kind", SECURE_KINDS)
def test_rows_with_tls_are_measured(kind: ServerKind) -> None:
    rows = [replace(row, workload=row.workload.scaled(0.001)) for row in FULL if row.tls]
    assert {"tls-1-1", "tls-10-10", "tls-handshakes", "tls-idle"} == {row.key for row in rows}
    # Its own configuration does not take the place of TLS.
    rows.append(Row("both", "", PublishSubscribe(1, 1, 128, 100), config="max_payload: 1000\n", tls=True))
    results = compare(rows, [find_server(kind)], 1, lambda *_: None)
    assert [(result.row.key, result.error) for result in results] == [(row.key, "") for row in rows]


def test_a_server_that_was_not_started_here_gets_no_tls() -> None:
    (result,) = compare(
        choose_rows("full", "tls-1-1"), [find_server("nats://127.0.0.1:1")], 1, lambda *_: None
    )
    assert "cannot be configured: it was not started here" in result.error


@pytest.mark.parametrize("kind", SECURE_KINDS)
def test_what_is_wrong_is_said_in_one_line(guarded: Address, kind: ServerKind, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="cannot be trusted") as caught:
        greet(guarded._replace(tls=Tls(handshake_first=bool(guarded.tls and guarded.tls.handshake_first))))
    assert "--tls-ca" in caught.value.hint
    with pytest.raises(BenchError, match="does not accept these credentials") as caught:
        greet(guarded._replace(identity=None))
    assert "--creds" in caught.value.hint
    with running_server(kind) as server:
        plain = Address(server.host, server.port, secure=True)
        with pytest.raises(BenchError, match="has no TLS"):
            greet(plain)
        with pytest.raises(BenchError, match="has no TLS"):
            TlsHandshakes(1).run(Address(server.host, server.port), lambda: 0)
