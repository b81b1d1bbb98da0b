"""A context for a listening socket whose certificates can change while it listens."""

from __future__ import annotations

import ssl

from headrace.config.tls.context import make_context
from headrace.config.tls.settings import TlsSettings


class RenewableContext:
    """`listening` is for the socket, which keeps it; every handshake gets the newest certificates."""

    def __init__(self, settings: TlsSettings) -> None:
        self.use(settings)
        self.listening = make_context(settings, asks_for_certificates=False)
        self.listening.sni_callback = self._choose

    def use(self, settings: TlsSettings) -> None:
        """For those who connect from now on."""
        self._newest = make_context(settings, asks_for_certificates=False)

    def _choose(self, connection: ssl.SSLObject, asked: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._newest
        if choose := self._newest.sni_callback:
            choose(connection, asked or "", context)
