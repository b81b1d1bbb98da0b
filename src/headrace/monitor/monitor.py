"""The monitoring port: its address, and the table of paths and endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.listener import join_address, listen
from headrace.config.options import ANY_FREE_PORT
from headrace.config.tls.renewable import RenewableContext
from headrace.config.tls.settings import TlsSettings
from headrace.errors import UsageError
from headrace.http.message import JSON, Answer, Request, answer_status, answer_text
from headrace.http.server import HttpServer
from headrace.monitor.accountz import answer_accountz
from headrace.monitor.accstatz import answer_accstatz
from headrace.monitor.connz import answer_connz
from headrace.monitor.console.console import Console, answer_console
from headrace.monitor.endpoint import Context, new_context
from headrace.monitor.healthz import answer_healthz
from headrace.monitor.jsz import answer_jsz
from headrace.monitor.landings import Landings
from headrace.monitor.metrics.endpoint import answer_metrics
from headrace.monitor.metrics.loop_stalls import LoopStalls
from headrace.monitor.neighbours import answer_gatewayz, answer_leafz, answer_routez
from headrace.monitor.process import answer_expvarz, answer_ipqueuesz, answer_raftz, answer_stacksz
from headrace.monitor.query import BadQuery, Query, parse_query
from headrace.monitor.root import answer_root
from headrace.monitor.subsz import answer_subsz
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
    "/accountz": answer_accountz,
    "/accstatz": answer_accstatz,
    "/routez": answer_routez,
    "/gatewayz": answer_gatewayz,
    "/leafz": answer_leafz,
    "/ipqueuesz": answer_ipqueuesz,
    "/raftz": answer_raftz,
    "/stacksz": answer_stacksz,
    "/debug/vars": answer_expvarz,
}
REQUEST_ROUTES: dict[str, Callable[[Context, Request], Awaitable[Answer]]] = {
    "/metrics": answer_metrics,
    "/console": answer_console,
    "/console/": answer_console,
}
"""Those that look at the request themselves, also at its method. A path that ends in `/` is a prefix."""
METHODS = ("GET", "HEAD")
NOT_FOUND = "404 page not found\n"
ANY_ORIGIN = ("Access-Control-Allow-Origin", "*")


class Monitor:
    """Serves the endpoints of one broker, from `start` until `stop`."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.port = broker.options.monitor_port  # the one in use, once it listens
        self._tls: RenewableContext | None = None
        self._loop_stalls = LoopStalls()
        self.console = Console(broker)
        self.context = msgspec.structs.replace(
            new_context(broker), loop_stalls=self._loop_stalls, console=self.console
        )
        prefix = self.context.base_path.rstrip("/")
        self._routes = {(prefix + path).rstrip("/") or "/": route for path, route in ROUTES.items()}
        self._request_routes = {prefix + path: route for path, route in REQUEST_ROUTES.items()}
        self.http = HttpServer(self.handle, broker.logger, "monitoring")

    @property
    def address(self) -> str:
        """`host:port` where it listens."""
        return join_address(self.broker.options.monitor_host, self.port)

    @property
    def scheme(self) -> str:
        return "https" if self.broker.options.https_port else "http"

    def load_certificates(self, settings: TlsSettings) -> None:
        """Use these for those who connect from now on."""
        if self._tls is not None:
            self._tls.use(settings)

    def show_jetstream(self, jetstream: JetStream) -> None:
        """Report on its streams from now on."""
        landings = Landings(self.broker)
        self.console.show_jetstream(jetstream)
        self.context = msgspec.structs.replace(self.context, jetstream=jetstream, landings=landings)

    def update(self) -> None:
        """Follow a reload: accounts may be new, or gone."""
        if self.context.landings:
            self.context.landings.update()

    async def start(self) -> None:
        """Raises UsageError if the address cannot be used."""
        options = self.broker.options
        host, port = options.monitor_host, options.monitor_port
        if options.https_port and options.tls is not None:
            self._tls = RenewableContext(options.tls)
        try:
            listening = listen(host, port)
        except UsageError as error:
            if not options.http_port_is_optional:
                raise UsageError(
                    f"Can't start monitoring: can't listen to the monitor port: {error}",
                    hint=error.hint.replace("-p", "-m"),
                ) from None
            listening = listen(host, ANY_FREE_PORT)
        self.port = listening.getsockname()[1]
        self.broker.logger.info(f"Starting {self.scheme} monitor on {self.address}")
        await self.http.start(listening, self._tls.listening if self._tls else None)
        self._loop_stalls.start()
        self.console.start()

    async def stop(self) -> None:
        self._loop_stalls.stop()
        self.console.stop()
        await self.http.stop()

    async def handle(self, request: Request) -> Answer:
        """The response to a request."""
        path = unquote(request.path)
        try:
            if request_route := self._find_request_route(path):
                return await request_route(self.context, request)
            if request.method not in METHODS:
                return answer_status(HTTPStatus.METHOD_NOT_ALLOWED, (("Allow", ", ".join(METHODS)),))
            route = self._routes.get(path)
            if route is None:
                return answer_text(404, NOT_FOUND)
            async with self.http.turns.next():
                answer = route(self.context, parse_query(request.query))
        except BadQuery as error:
            return answer_text(400, error.message)
        if answer.content_type == JSON:
            return msgspec.structs.replace(answer, headers=(*answer.headers, ANY_ORIGIN))
        return answer

    def _find_request_route(self, path: str) -> Callable[[Context, Request], Awaitable[Answer]] | None:
        """That of just this path, or of the longest prefix."""
        if path in self._request_routes:
            return self._request_routes[path]
        prefixes = [each for each in self._request_routes if each.endswith("/") and path.startswith(each)]
        return self._request_routes[max(prefixes, key=len)] if prefixes else None
