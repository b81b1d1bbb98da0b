"""The port that takes messages over HTTP: `POST /publish/SUBJECT`.

In this order: the origin (a page in a browser must be allowed), the path, who it is, the body, the messages.
So a peer that may not publish cannot make the server read or keep anything.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.listener import MAPPED_IPV4_PREFIX, WILDCARD_HOSTS, join_address, listen
from headrace.config.http_in import ANY_ORIGIN, HttpInOptions
from headrace.config.tls.renewable import RenewableContext
from headrace.config.tls.settings import TlsSettings
from headrace.errors import UsageError
from headrace.http.message import Answer, BadRequest, Request
from headrace.http.server import HttpServer
from headrace.http_in.bodies import Bodies
from headrace.http_in.client import PublishingClient, Refused
from headrace.http_in.clients import Clients
from headrace.http_in.lines import CONTENT_TYPES
from headrace.http_in.login import CHALLENGE, BadAuthorization, read_authorization
from headrace.http_in.message import NATS_PREFIX, BadMessage, Message, check_subject, encode_headers, spell
from headrace.http_in.outcome import Outcome, failed
from headrace.http_in.window import NDJSON, publish_lines

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

PATH = "/publish"
METHODS = "POST, OPTIONS"
RETRY_LATER = ("Retry-After", "1")
PREFLIGHT_SECONDS = "600"
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class HttpIn:
    """Serves one broker, from `start` until `stop`. `counts` are requests by status."""

    def __init__(self, broker: Broker, jetstream: JetStream | None) -> None:
        self.broker = broker
        self.options: HttpInOptions = broker.options.http_in
        self.port = self.options.port  # the one in use, once it listens
        self.counts: Counter[int] = Counter()
        self.messages = 0
        self.http = HttpServer(self.handle, broker.logger, "http_in")
        self.http.refusal = answer_refusal
        self.http.max_connections = self.options.max_connections
        self._jetstream = jetstream
        self._clients = Clients(broker, self._has_streams)
        self._bodies = Bodies(self.options.max_body)
        self._tls = RenewableContext(self.options.tls) if self.options.tls else None
        self._passed = {name.lower(): name.encode() for name in self.options.headers}

    @property
    def address(self) -> str:
        return join_address(self.broker.options.http_in_host, self.port)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.address}{PATH}/"

    async def start(self) -> None:
        """Raises UsageError if the address cannot be used."""
        host, logger = self.broker.options.http_in_host, self.broker.logger
        try:
            listening = listen(host, self.options.port)
        except UsageError as error:
            hint = "choose another port with --http-in, or in the http_in block" if error.hint else ""
            raise UsageError(f"Unable to listen for messages over HTTP: {error}", hint=hint) from None
        self.port = listening.getsockname()[1]
        logger.info(f"Listening for messages over HTTP on {self.url}")
        is_exposed = host in WILDCARD_HOSTS or host not in LOOPBACK_HOSTS
        if is_exposed and self._tls is None and self.broker.authenticator.required:
            logger.warn("http_in not configured with TLS: credentials and messages travel in clear text")
        await self.http.start(listening, self._tls.listening if self._tls else None)

    async def stop(self) -> None:
        self._clients.close()
        await self.http.stop()
        if self.counts:
            shown = ", ".join(f"{count} with {status}" for status, count in sorted(self.counts.items()))
            self.broker.logger.info(f"HTTP in: {self.messages} messages; requests: {shown}")

    def load_certificates(self, settings: TlsSettings) -> None:
        """For those who connect from now on."""
        if self._tls:
            self._tls.use(settings)

    def _has_streams(self, account: str) -> bool:
        found = self._jetstream.accounts.get(account) if self._jetstream else None
        return found is not None and found.is_enabled

    # -- requests

    async def handle(self, request: Request) -> Answer:
        begin = time.monotonic()
        origin = request.header("origin")
        if origin and not self._is_allowed(origin):
            answer = answer_outcome(failed(403, f"pages of {origin[:200]} may not publish here"))
        elif request.method == "OPTIONS" and origin:
            answer = answer_preflight(self._passed)
        else:
            answer = await self._answer(request)
        self.counts[answer.status] += 1
        if self.broker.logger.debug_enabled:
            spent = (time.monotonic() - begin) * 1000
            line = (
                f"{request.peer} - HTTP {request.method} {request.path[:200]} {answer.status} {spent:.1f} ms"
            )
            self.broker.logger.debug(line)
        return with_origin(answer, origin) if origin and self._is_allowed(origin) else answer

    def _is_allowed(self, origin: str) -> bool:
        return ANY_ORIGIN in self.options.allowed_origins or origin in self.options.allowed_origins

    async def _answer(self, request: Request) -> Answer:
        if request.path != PATH and not request.path.startswith(f"{PATH}/"):
            return answer_outcome(failed(404, f"there is nothing here; publish with POST {PATH}/SUBJECT"))
        if request.method != "POST":
            return answer_outcome(failed(405, "publish with POST"), (("Allow", METHODS),))
        is_many = request.header("content-type").partition(";")[0].strip().lower() in CONTENT_TYPES
        try:
            subject = unquote_to_bytes(request.path[len(PATH) + 1 :])
            if subject or not is_many:
                check_subject(subject)
            wants_ack = read_query(request.query)
            headers = encode_headers(self._headers(request))
            if headers and is_many:
                raise BadMessage("with NDJSON, headers are fields of the lines")
            trust = self.broker.options.trust
            login = read_authorization(
                request.header("authorization"), is_operator_mode=trust.is_operator_mode
            )
            host = request.peer.removeprefix(MAPPED_IPV4_PREFIX)
            async with self._clients.take(login, host) as client, self._bodies.read(request) as body:
                if is_many:
                    return await self._publish_many(client, body, subject, wants_ack)
                return await self._publish_one(client, Message(subject, body, headers), wants_ack)
        except BadMessage as error:
            return answer_outcome(failed(400, str(error)))
        except BadAuthorization:
            return answer_outcome(failed(401, "use Basic or Bearer"), (CHALLENGE,))
        except Refused as error:
            headers_of_refusal = (CHALLENGE,) if error.status == 401 else (RETRY_LATER,)
            return answer_outcome(failed(error.status, str(error)), headers_of_refusal)

    async def _publish_one(self, client: PublishingClient, message: Message, wants_ack: bool) -> Answer:
        outcome = await client.publish(message, wants_ack=wants_ack, timeout=self.options.timeout)
        self.messages += outcome[0] < 300
        return answer_outcome(outcome, (RETRY_LATER,) if outcome[0] == 503 else ())

    async def _publish_many(
        self, client: PublishingClient, body: bytes, subject: bytes, wants_ack: bool
    ) -> Answer:
        outcomes = await publish_lines(
            client, body, subject, wants_ack=wants_ack, timeout=self.options.timeout, turns=self.http.turns
        )
        self.messages += sum(status < 300 for status, _ in outcomes)
        return Answer(encode_lines(outcomes), NDJSON)

    def _headers(self, request: Request) -> Iterator[tuple[bytes, bytes]]:
        """Those that belong to the message."""
        for name, value in request.headers:
            if name.startswith(NATS_PREFIX):
                yield spell(name), value.encode("latin-1")
            elif name in self._passed:
                yield self._passed[name], value.encode("latin-1")


def read_query(query: str) -> bool:
    """Whether an acknowledgement is wanted. Raises BadMessage for anything else."""
    try:
        given = parse_qsl(query, keep_blank_values=True, max_num_fields=8, errors="surrogateescape")
    except ValueError:
        raise BadMessage("there are too many parameters") from None
    wants_ack = True
    for name, value in given:
        if name != "ack" or value not in ("yes", "no"):
            raise BadMessage("the only parameter is ack=yes or ack=no")
        wants_ack = value == "yes"
    return wants_ack


def answer_outcome(outcome: Outcome, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    status, document = outcome
    return Answer([msgspec.json.encode(document) + b"\n"], status=status, headers=headers)


def answer_refusal(error: BadRequest) -> Answer:
    """To what cannot be read as a request: JSON, like every other answer."""
    return answer_outcome(
        failed(error.status, str(error)),
        (RETRY_LATER,) if error.status == HTTPStatus.SERVICE_UNAVAILABLE else (),
    )


def encode_lines(outcomes: list[Outcome]) -> Iterator[bytes]:
    for _, document in outcomes:
        yield msgspec.json.encode(document) + b"\n"


def answer_preflight(passed: dict[str, bytes]) -> Answer:
    names = ["Authorization", "Content-Type", "Nats-Msg-Id", "Nats-TTL", "Nats-Rollup"]
    names += ["Nats-Expected-Stream", "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence"]
    names += [name.decode() for name in passed.values()]
    headers = (
        ("Access-Control-Allow-Methods", METHODS),
        ("Access-Control-Allow-Headers", ", ".join(names)),
        ("Access-Control-Max-Age", PREFLIGHT_SECONDS),
    )
    return Answer([], status=204, headers=headers)


def with_origin(answer: Answer, origin: str) -> Answer:
    headers = (*answer.headers, ("Access-Control-Allow-Origin", origin), ("Vary", "Origin"))
    return msgspec.structs.replace(answer, headers=headers)
