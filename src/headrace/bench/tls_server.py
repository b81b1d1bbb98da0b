"""A server with TLS, for one run: a certificate that is made for it, and clients that trust it alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from headrace.bench.failure import BenchError
from headrace.bench.servers import Server
from headrace.client.tls import Tls

LISTENER = "127.0.0.1"
HANDSHAKE_SECONDS = 10  # the load generator works on many handshakes at a time


@contextmanager
def with_tls(server: Server) -> Iterator[Server]:
    """The same server, to be started with TLS. Raises BenchError for one that runs already."""
    from headrace.keys.self_signed import prepare_self_signed

    if server.address is not None:
        raise BenchError(f"{server.name} cannot be configured: it was not started here")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        files = prepare_self_signed(directory, [LISTENER])
        config = (
            f'tls {{ cert_file: "{files.certificate}", key_file: "{files.key}", '
            f"timeout: {HANDSHAKE_SECONDS} }}\n"
        )
        yield replace(server, config_text=server.config_text + config, tls=Tls(ca=files.ca))
