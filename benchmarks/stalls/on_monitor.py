"""Operations of the monitor: many requests in one write, from one or several connections, about very much."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

from benchmarks.stalls.asker import Asker, consume, create
from benchmarks.stalls.on_connections import SUBSCRIPTIONS, subscribed
from benchmarks.stalls.operations import Ports, operation
from headrace.bench.wire import open_connections

PIPELINED = 50
CLIENTS = 4
STREAMS = 1000
CONSUMERS_PER_STREAM = 4
CONNECTIONS = 5000

Preparation = Callable[[Asker, Ports], Iterator[None]]


def nothing(asker: Asker, ports: Ports) -> Iterator[None]:
    yield


def streams(asker: Asker, ports: Ports) -> Iterator[None]:
    for number in range(STREAMS):
        create(asker, f"M{number}", storage="memory")
    yield


def streams_and_consumers(asker: Asker, ports: Ports) -> Iterator[None]:
    for _ in streams(asker, ports):
        for number in range(STREAMS * CONSUMERS_PER_STREAM):
            consume(asker, f"M{number % STREAMS}", f"c{number // STREAMS}")
        yield


def connections(asker: Asker, ports: Ports) -> Iterator[None]:
    with open_connections(ports.client, [b""] * CONNECTIONS):
        yield


def subscriptions(asker: Asker, ports: Ports) -> Iterator[None]:
    with subscribed(ports.client, SUBSCRIPTIONS):
        yield


def _connect(ports: Ports) -> socket.socket:
    return socket.create_connection((ports.monitor.host, ports.monitor.port), timeout=120)


def _monitor(
    name: str, path: str, prepare: Preparation, *, pipelined: int = PIPELINED, clients: int = CLIENTS
) -> None:
    @operation(name)
    def run(asker: Asker, messages: int, ports: Ports) -> Iterator[None]:
        for _ in prepare(asker, ports):
            sockets = [_connect(ports) for _ in range(clients)]
            yield
            request = f"GET {path} HTTP/1.1\r\nHost: monitor\r\n\r\n".encode()
            last = request.replace(b"Host:", b"Connection: close\r\nHost:")
            for connection in sockets:
                connection.sendall(request * (pipelined - 1) + last)
            for connection in sockets:
                while connection.recv(1 << 20):
                    pass
                connection.close()


_monitor("varz", "/varz", nothing)
_monitor("healthz", "/healthz", nothing)
_monitor("varz-streams", "/varz", streams)
_monitor("jsz", "/jsz?streams=1&consumers=1&config=1&limit=1024", streams, pipelined=5)
_monitor("healthz-streams", "/healthz", streams)
_monitor("metrics", "/metrics", streams, pipelined=1, clients=1)
_monitor("metrics-consumers", "/metrics", streams_and_consumers, pipelined=1, clients=1)
_monitor("connz", "/connz?subs=detail&auth=1&sort=idle", connections, pipelined=5)
_monitor("connz-subscriptions", "/connz?subs=detail&limit=10", subscriptions, pipelined=1)
_monitor("subsz", "/subsz?subs=1&limit=100000", subscriptions, pipelined=1)
_monitor("subsz-test", "/subsz?subs=1&test=a.7.7", subscriptions, pipelined=5)
