"""Three nats-servers that replicate streams among each other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.servers import HOST, Server, reserved_port, running_server

NAMES = ("one", "two", "three")
CONFIG = """
server_name: {name}
jetstream {{ store_dir: "{store}" }}
cluster {{ name: test, listen: "{host}:{port}", routes: [{routes}] }}
"""


@contextmanager
def running_cluster(directory: Path) -> Iterator[dict[str, Server]]:
    """The servers by their names."""
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        # Routes must be known beforehand, so these servers cannot choose their ports.
        ports = [stack.enter_context(reserved_port()) for _ in NAMES]
        routes = ", ".join(f'"nats://{HOST}:{port}"' for port in ports)
        managers = [
            running_server(
                "nats-server",
                CONFIG.format(name=name, store=directory / name, host=HOST, port=port, routes=routes),
            )
            for name, port in zip(NAMES, ports, strict=True)
        ]
        # Each is ready only when the others are there to choose a leader with.
        yield dict(zip(NAMES, pool.map(stack.enter_context, managers), strict=True))
