"""The monitoring port: its address, and the table of paths and endpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.listener import join_address, listen
from headrace.errors import UsageError
from headrace.monitor.connz import answer_connz
from headrace.monitor.endpoint import Answer, Context, answer_text
from headrace.monitor.healthz import answer_healthz
from headrace.monitor.http import HttpServer
from headrace.monitor.jsz import answer_jsz
from headrace.monitor.query import BadQuery, Query, parse_query
from headrace.monitor.root import answer_root
from headrace.monitor.subsz import answer_subsz
from headrace.monitor.usage import ProcessorShare
from headrace.monitor.varz import answer_varz

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

ROUTES: dict[str, Callable[[Context, Query], Answer]] = {
    "/": answer_root,
    "/varz": answer_varz,
    "/connz": answer_connz,
    "/subsz": answer_subsz,
    "/subscriptionsz": answer_subsz,
    "/jsz": answer_jsz,
    "/healthz": answer_healthz,
}
NOT_FOUND = "404 page not found\n"


class Monitor:
    """Serves the endpoints of one broker, from `start` until `stop`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.port = broker.options.http_port  # the one in use, once it listens
        base_path = "/" + broker.options.http_base_path.strip("/")
        self._context = Context(
            broker=broker,
            base_path=base_path,
            request_counts=Counter(),
            processor_share=ProcessorShare(),
        )
        prefix = base_path.rstrip("/")
        self._routes = {(prefix + path).rstrip("/") or "/": route for path, route in ROUTES.items()}
        self.http = HttpServer(self.handle, broker.logger)

    @property
    def address(self) -> str:
        """`host:port` where it listens."""
        return join_address(self.broker.options.monitor_host, self.port)

    def show_jetstream(self, jetstream: JetStream) -> None:
        """Report on its streams from now on."""
        self._context = msgspec.structs.replace(self._context, jetstream=jetstream)

    async def start(self) -> None:
        """Raises UsageError if the address cannot be used."""
        host, port = self.broker.options.monitor_host, self.broker.options.http_port
        try:
            listening = listen(host, port)
        except UsageError as error:
            raise UsageError(
                f"Can't start monitoring: can't listen to the monitor port: {error}",
                hint=error.hint.replace("-p", "-m"),
            ) from None
        self.port = listening.getsockname()[1]
        self.broker.logger.info(f"Starting http monitor on {self.address}")
        await self.http.start(listening)

    async def stop(self) -> None:
        await self.http.stop()

    def handle(self, target: str) -> Answer:
        """The response to a request for a path, with or without a query."""
        path, _, query = target.partition("?")
        route = self._routes.get(unquote(path))
        if route is None:
            return answer_text(404, NOT_FOUND)
        try:
            return route(self._context, parse_query(query))
        except BadQuery as error:
            return answer_text(400, error.message)
