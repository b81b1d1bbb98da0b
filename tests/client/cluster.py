"""Three nats-servers that replicate streams among each other."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers import HOST, Server, running_server

CONFIG = """
server_name: {name}
jetstream {{ store_dir: "{store}" }}
cluster {{ name: test, listen: "{host}:{port}", routes: [{routes}] }}
"""


@contextmanager
def running_cluster(directory: Path) -> Iterator[dict[str, Server]]:
    """The servers by their names."""
    ports = _free_ports(3)
    routes = ", ".join(f'"nats://{HOST}:{port}"' for port in ports)
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                running_server(
                    "nats-server",
                    CONFIG.format(name=name, store=directory / name, host=HOST, port=port, routes=routes),
                )
            )
            for name, port in zip(("one", "two", "three"), ports, strict=True)
        }


def _free_ports(count: int) -> list[int]:
    """Routes must be known beforehand, so these servers cannot choose their ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
