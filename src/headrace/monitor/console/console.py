"""The routes of /console, and the checks in front of them.

    GET   /console                     the page
    GET   /console/<file>              its parts
    GET   /console/api/session         who is logged in, and what it may
    POST  /console/api/login, logout
    GET   /console/api/view/<name>     a view, as JSON
    GET   /console/api/live/<name>     the same view, again and again (server-sent events)
    POST  /console/api/act/<name>      a change

Every answer is for our own page alone: other sites cannot read or cause any of them (access.py).
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import AsyncGenerator
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from headrace.accounts.credentials import ANONYMOUS
from headrace.broker.broker import Broker
from headrace.http.message import JSON, Answer, BadRequest, Headers, Request, answer_text
from headrace.monitor.console import access
from headrace.monitor.console.acts import ACTS
from headrace.monitor.console.asking import Asking, Document
from headrace.monitor.console.calls import Calls
from headrace.monitor.console.history import History
from headrace.monitor.console.live import CONTENT_TYPE, Live, View, without_history
from headrace.monitor.console.login import Attempts, Gate, LoginBody, Nonces, credentials_of
from headrace.monitor.console.pages import SAFETY, answer_file
from headrace.monitor.console.refusal import Refusal, bad_request, forbidden, not_found
from headrace.monitor.console.sessions import LONGEST_SECONDS, Session, Sessions
from headrace.monitor.console.viewer import Viewer
from headrace.monitor.console.views import (
    connections,
    consumers,
    keyvalue,
    messages,
    overview,
    streams,
    tables,
)
from headrace.monitor.documents import encode_value
from headrace.monitor.endpoint import Context
from headrace.monitor.query import parse_query

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

VIEWS: dict[str, View] = {
    "overview": overview.show_overview,
    "connections": connections.show_connections,
    "connection": connections.show_connection,
    "streams": streams.show_streams,
    "stream": streams.show_stream,
    "subjects": streams.show_subjects,
    "messages": messages.show_messages,
    "message": messages.show_message,
    "consumers": consumers.show_consumers,
    "consumer": consumers.show_consumer,
    "buckets": keyvalue.show_buckets,
    "keys": keyvalue.show_keys,
    "key": keyvalue.show_key,
    "tables": tables.show_tables,
}
LIVE_VIEWS = frozenset(
    {"overview", "connections", "streams", "stream", "consumers", "consumer", "buckets", "tables"}
)

PATH = "/console"
COOKIE = "headrace_console"
TOKEN_HEADER = "x-headrace-console"
MAX_LOGIN_BYTES = 64 * 1024
BYTES_AROUND_PAYLOAD = 64 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
RECHECK_SECONDS = 60.0
NO_STORE = ("Cache-Control", "no-store")
WRONG = "These credentials are not accepted."


class Body:
    """What a POST carries. If it is refused, the rest is read, too, so that the connection can go on."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._is_read = False

    async def read(self, most: int) -> bytes:
        """Raises BadRequest if it is longer or too slow."""
        self._is_read = True
        return await self._request.body(most)

    async def skip(self) -> None:
        if not self._is_read:
            with suppress(BadRequest):  # it ends the connection after the answer
                await self.read(MAX_LOGIN_BYTES)


class Console:
    """One for a server, as long as its monitoring port is open."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.sessions = Sessions()
        self.attempts = Attempts()
        self.live = Live()
        self._nonces = Nonces()
        self._gate = Gate(broker)
        self._calls = Calls(broker)
        self._history = History(broker)
        self._open_token = secrets.token_urlsafe(32)
        """For a server without users, which has no sessions."""

    def start(self) -> None:
        """The monitoring port is open."""
        if why := self.why_off:
            self._broker.logger.info(f"The console is off: {why}")
        self._history.start()

    def show_jetstream(self, jetstream: JetStream) -> None:
        self._history.jetstream = jetstream

    def stop(self) -> None:
        self._history.stop()
        self._calls.close()

    @property
    def why_off(self) -> str:
        """Empty: it is on. A reload may change it."""
        return access.why_off(self._broker.options)

    # -- requests

    async def answer(self, context: Context, request: Request) -> Answer:
        prefix = context.base_path.rstrip("/") + PATH
        name = request.path.removeprefix(prefix)
        if why := self.why_off:
            return answer_text(404, f"The console is off: {why}.\n", SAFETY)
        if not access.is_our_host(request.header("host"), self._broker.options):
            return answer_text(
                421, "The console does not know this host name; add it to hosts of console.\n", SAFETY
            )
        if not name.startswith("/api/"):
            return self._answer_page(request, name, prefix)
        body = Body(request)
        try:
            return await self._answer_api(context, request, body, name.removeprefix("/api/"))
        except Refusal as refusal:
            await body.skip()
            return self._refuse(refusal)

    def _answer_page(self, request: Request, name: str, prefix: str) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return answer_text(405, "405 method not allowed\n", (*SAFETY, ("Allow", "GET, HEAD")))
        if name == "/":  # its parts are found relative to the page without the slash
            return answer_text(308, "", (*SAFETY, ("Location", prefix)))
        return answer_file(request, name.removeprefix("/") or "index.html")

    async def _answer_api(self, context: Context, request: Request, body: Body, name: str) -> Answer:
        if access.is_from_elsewhere(request):
            raise forbidden("Another site made this request.")
        kind, _, rest = name.partition("/")
        expected = "POST" if kind in ("login", "logout", "act") else "GET"
        if request.method != expected:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"Use {expected} here.")
        if name == "session":
            return self._answer_session(await self._find_session(request))
        if name == "nonce":
            return _answer_json({"nonce": self._nonces.issue()})
        if name == "login":
            return await self._log_in(request, body)
        session = await self._find_session(request)
        if name == "logout":
            return await self._log_out(request, body, session)
        viewer = self._viewer(session)
        ask = Asking(context, viewer, parse_query(request.query), self._calls, self._history)
        if kind == "act":
            return await self._act(request, body, session, ask, rest)
        view = VIEWS.get(rest)
        if view is None or kind not in ("view", "live"):
            raise not_found("There is no such view.")
        if kind == "live":
            return self._answer_live(rest, view, ask, session)
        return _answer_json(await view(ask))

    def _refuse(self, refusal: Refusal) -> Answer:
        error: Document = {"message": refusal.message, "status": refusal.status}
        if refusal.err_code:
            error["err_code"] = refusal.err_code
        more: list[tuple[str, str]] = []
        if refusal.status == HTTPStatus.METHOD_NOT_ALLOWED:
            more.append(("Allow", refusal.message.split()[1]))
        if refusal.retry_seconds:
            more.append(("Retry-After", str(refusal.retry_seconds)))
        return _answer_json({"error": error}, refusal.status, tuple(more))

    # -- sessions

    @property
    def _needs_login(self) -> bool:
        return self._broker.options.auth_required

    @property
    def _cookie_name(self) -> str:
        """Browsers share cookies between ports."""
        return f"{COOKIE}_{self._broker.port}"

    def _viewer(self, session: Session | None) -> Viewer:
        """Raises Refusal if somebody has to log in first."""
        if session is not None:
            return Viewer(self._broker, session.identity)
        if self._needs_login:
            raise Refusal(HTTPStatus.UNAUTHORIZED, "Log in first.")
        return Viewer(self._broker, ANONYMOUS)

    async def _find_session(self, request: Request) -> Session | None:
        """None: there is none any more, or none is needed."""
        if not self._needs_login:
            return None
        session_id = read_cookie(request.header("cookie"), self._cookie_name)
        session = self.sessions.find(session_id) if session_id else None
        return await self._still_valid(session) if session is not None else None

    async def _still_valid(self, session: Session) -> Session | None:
        """Compare its credentials again, if the answer may be another one by now."""
        now = self.sessions.now()
        is_old = self._gate.decides_elsewhere and now - session.checked > RECHECK_SECONDS
        configuration = self._broker.configured_at
        if session.checked_configuration == configuration and not is_old:
            return session
        identity = await self._gate.check(session.credentials)
        if identity is None:
            self.sessions.close(session)
            return None
        session.identity, session.checked, session.checked_configuration = identity, now, configuration
        return session

    def _answer_session(self, session: Session | None) -> Answer:
        options = self._broker.options
        document: Document = {
            "server": options.server_name or self._broker.server_id[:12],
            "needs_login": self._needs_login,
            "accepts_nkeys": self._broker.authenticator.wants_nonce,
            **self._describe_who(session),
        }
        return _answer_json(document)

    def _describe_who(self, session: Session | None) -> Document:
        if session is None and self._needs_login:
            return {"viewer": None}
        viewer = self._viewer(session)
        return {
            "token": session.token if session else self._open_token,
            "viewer": {
                "user": viewer.user,
                "account": viewer.identity.account,
                "is_operator": viewer.is_operator,
                "is_read_only": viewer.is_read_only,
                "accounts": [
                    {"name": account.name, "title": account.title} for account in viewer.listed_accounts()
                ],
            },
        }

    async def _log_in(self, request: Request, sent: Body) -> Answer:
        check_json(request)
        body = read_login(await sent.read(MAX_LOGIN_BYTES))
        self.attempts.check(request.peer)
        if not self._needs_login:
            raise bad_request("This server has no users: nobody has to log in.")
        credentials = credentials_of(body, request.peer)
        if body.is_empty and not access.is_loopback(self._broker.options.monitor_host):
            identity = None  # whoever may connect without credentials has to be on this machine
        elif body.sig and not self._nonces.redeem(body.nonce):
            raise Refusal(HTTPStatus.UNAUTHORIZED, "The login took too long. Try again.")
        else:
            configuration = self._broker.configured_at
            self.attempts.note_failure(request.peer)  # first: many may come at once
            identity = await self._gate.check(credentials)
        if identity is None:
            label = credentials.label or "nobody"
            self._broker.logger.error(f"console: {request.peer} - authentication error - {label}")
            raise Refusal(HTTPStatus.UNAUTHORIZED, WRONG)
        self.attempts.note_success(request.peer)
        session = self.sessions.open(identity, credentials, configuration)
        cookie = self._cookie(request, session.id, int(LONGEST_SECONDS))
        return _answer_json({"needs_login": True, **self._describe_who(session)}, more=(cookie,))

    async def _log_out(self, request: Request, body: Body, session: Session | None) -> Answer:
        self._check_token(request, session)
        await body.skip()
        if session is not None:
            self.sessions.close(session)
        return _answer_json({"success": True}, more=(self._cookie(request, "", 0),))

    def _cookie(self, request: Request, value: str, seconds: int) -> tuple[str, str]:
        secure = "; Secure" if request.is_secure else ""
        path = "/".join(("", *filter(None, self._broker.options.http_base_path.split("/")), "console"))
        text = (
            f"{self._cookie_name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        )
        return "Set-Cookie", text

    # -- changes and live views

    def _check_token(self, request: Request, session: Session | None) -> None:
        """Raises Refusal unless the request comes from our own page."""
        check_json(request)
        token = session.token if session else self._open_token
        if not hmac.compare_digest(request.header(TOKEN_HEADER).encode(), token.encode()):
            raise forbidden("The token of this page is not valid any more. Reload the page.")

    async def _act(
        self, request: Request, body: Body, session: Session | None, ask: Asking, name: str
    ) -> Answer:
        self._check_token(request, session)
        act = ACTS.get(name)
        if act is None:
            raise not_found("There is no such act.")
        ask.viewer.check_may_change()
        most = min(4 * self._broker.options.max_payload + BYTES_AROUND_PAYLOAD, MAX_BODY_BYTES)
        return _answer_json(await act(ask, await body.read(most)))

    def _answer_live(self, name: str, view: View, ask: Asking, session: Session | None) -> Answer:
        if name not in LIVE_VIEWS:
            raise not_found("There is no such live view.")
        if self.live.is_full:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Too many consoles are open.", retry_seconds=5)
        is_first = True

        async def renew() -> Asking:
            nonlocal is_first
            if not is_first or session is not None:
                found = self.sessions.find(session.id) if session else None
                viewer = self._viewer(await self._still_valid(found) if found else None)
                asked = ask if is_first else without_history(ask)
                is_first = False
                return msgspec.structs.replace(asked, viewer=viewer)
            is_first = False
            return ask

        events: AsyncGenerator[bytes, None] = self.live.events(view, renew)
        return Answer(events, CONTENT_TYPE, 200, (*SAFETY, NO_STORE))


def _answer_json(document: Document, status: int = 200, more: Headers = ()) -> Answer:
    headers = (*SAFETY, NO_STORE, ("X-Content-Type-Options", "nosniff"), *more)
    return Answer([encode_value(document)], JSON, status, headers)


def check_json(request: Request) -> None:
    """A form of another site cannot send this type without asking first."""
    if request.header("content-type").partition(";")[0].strip().lower() != JSON:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body has to be {JSON}.")


def read_login(text: bytes) -> LoginBody:
    try:
        return msgspec.json.decode(text, type=LoginBody)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise bad_request("The request cannot be read.") from None  # without its text: it has secrets


def read_cookie(header: str, name: str) -> str:
    for pair in header.split(";"):
        found, _, value = pair.strip().partition("=")
        if found == name:
            return value
    return ""


async def answer_console(context: Context, request: Request) -> Answer:
    """The route of the monitoring port."""
    if context.console is None:
        return answer_text(404, "404 page not found\n")
    return await context.console.answer(context, request)
