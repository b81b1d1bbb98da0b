"""The JetStream API for the commands: documents in, documents out, and errors that say what to do.

    with open_api(target) as api:
        info = api.stream_info("ORDERS")       # the API's own document

Documents are passed on as they are, so that `--json` prints what the server said, fields that this version
does not know included.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from headrace.cli.target import Target
from headrace.client import ApiError, Client, ConnectionFailed, NoResponders, RequestTimeout
from headrace.client.api import PREFIX, decode, encode
from headrace.client.errors import STREAM_NOT_FOUND
from headrace.errors import HeadraceError

Document = dict[str, Any]

CONSUMER_NOT_FOUND = 10014
CONSUMER_EXISTS = 10148
NAMES_SHOWN = 5
REQUEST_SECONDS = 10.0
SYSTEM_PREFIXES = ("KV_", "OBJ_", "$MQTT_")  # what key-value, object store and MQTT keep in streams

HINTS = {
    10058: "choose another name, or change it with `headrace stream edit`",  # name in use
    10065: "give it subjects of its own with --subjects",  # subjects overlap
    10039: "use an account that has JetStream, or enable it for this one",
    10076: "start the server with JetStream enabled",
    10047: "purge or remove streams, or raise the limits of the server",  # insufficient storage
    10026: "remove consumers, or raise max_consumers",
    10027: "remove streams, or raise the account's limit",
    10074: "use --replicas 1, or a cluster",  # replicas > 1 not supported in non-clustered mode
    10109: "the stream is sealed: messages can be read, but not changed",
}


class Api:
    def __init__(self, client: Client) -> None:
        self.client = client

    def call(self, operation: str, body: Document | None = None, *, what: str) -> Document:
        """The answer to `$JS.API.<operation>`, without its type. Raises ApiError; it begins with `what`."""
        try:
            payload = self.client.request(f"{PREFIX}.{operation}", encode(body))
        except ConnectionFailed as error:
            raise _with_permission_hint(error) from None
        except RequestTimeout:
            raise RequestTimeout(
                f"{what}: JetStream did not answer in {self.client.request_timeout:g} s",
                hint="the server may be busy, or a replicated stream has no leader",
            ) from None
        except NoResponders as error:
            raise NoResponders(f"{what}: {error}", hint=error.hint) from None
        try:
            answer: Document = decode(payload, dict, what)
        except ApiError as error:
            self._explain(error, operation)
        answer.pop("type", None)
        return answer

    def _explain(self, error: ApiError, operation: str) -> NoReturn:
        _, verb, *names = operation.split(".")  # such as STREAM.INFO.ORDERS, STREAM.MSG.GET.ORDERS
        names = names[1:] if verb == "MSG" else names
        if error.err_code == STREAM_NOT_FOUND and names:
            message = f"there is no stream {names[0]}"
            hint = _suggestion(names[0], self.stream_names, "stream")
        elif error.err_code == CONSUMER_NOT_FOUND and operation.startswith("CONSUMER."):
            stream, name = names
            message = f"the stream {stream} has no consumer {name}"
            hint = _suggestion(name, lambda: self.consumer_names(stream), "consumer", stream)
        elif error.err_code == CONSUMER_EXISTS and len(names) == 2:
            message = f"the stream {names[0]} has a consumer {names[1]} with another configuration"
            hint = "change it with `headrace consumer edit`"
        else:
            message, hint = str(error), error.hint or HINTS.get(error.err_code, "")
        raise ApiError(
            message, code=error.code, err_code=error.err_code, description=error.description, hint=hint
        ) from None

    def every(
        self, operation: str, field: str, body: Document | None = None, *, what: str
    ) -> Iterator[Document]:
        """The items of a list that the server gives in pages."""
        count = 0
        while True:
            page = self.call(operation, {**(body or {}), "offset": count}, what=what)
            items = page.get(field) or []
            yield from items
            count += len(items)
            if not items or count >= page.get("total", 0):
                return

    # -- streams --------------------------------------------------------------------------------------------

    def stream_names(self, subject: str = "") -> list[str]:
        return self.client.stream_names(subject)

    def streams(self, subject: str = "") -> list[Document]:
        body = {"subject": subject} if subject else None
        found = list(self.every("STREAM.LIST", "streams", body, what="streams"))
        return sorted(found, key=lambda info: str(info["config"]["name"]))

    def stream_info(self, stream: str, body: Document | None = None) -> Document:
        return self.call(f"STREAM.INFO.{stream}", body, what=f"stream {stream}")

    def create_stream(self, config: Document) -> Document:
        name = config["name"]
        return self.call(f"STREAM.CREATE.{name}", config, what=f"stream {name} was not created")

    def update_stream(self, config: Document) -> Document:
        name = config["name"]
        return self.call(f"STREAM.UPDATE.{name}", config, what=f"stream {name} was not changed")

    # -- consumers ------------------------------------------------------------------------------------------

    def consumers(self, stream: str) -> list[Document]:
        found = list(self.every(f"CONSUMER.LIST.{stream}", "consumers", what=f"stream {stream}"))
        return sorted(found, key=lambda info: str(info["name"]))

    def consumer_names(self, stream: str) -> list[str]:
        names: list[Any] = list(self.every(f"CONSUMER.NAMES.{stream}", "consumers", what=f"stream {stream}"))
        return sorted(map(str, names))

    def consumer_info(self, stream: str, consumer: str) -> Document:
        return self.call(f"CONSUMER.INFO.{stream}.{consumer}", what=f"stream {stream}")


@contextmanager
def open_api(target: Target, *, timeout: float = REQUEST_SECONDS) -> Iterator[Api]:
    """Connected. Raises ConnectionFailed."""
    with Client.connect(
        list(target.servers),
        **vars(target.credentials),
        tls=target.tls,
        name="headrace",
        request_timeout=timeout,
    ) as client:
        yield Api(client)


def is_system_stream(name: str) -> bool:
    return name.startswith(SYSTEM_PREFIXES)


def _suggestion(name: str, ask: Callable[[], list[str]], kind: str, stream: str = "") -> str:
    place = f" {stream}" if stream else ""
    try:
        names = ask()
    except HeadraceError:
        return "check its name"  # who may not list them gets no list
    if not names:
        return f"there are none; create one with `headrace {kind} add{place}`"
    by_folded = {known.casefold(): known for known in reversed(names)}
    near = [
        by_folded[found]
        for found in difflib.get_close_matches(name.casefold(), by_folded, n=NAMES_SHOWN, cutoff=0.6)
    ]
    if near:
        return f"did you mean {' or '.join(near)}?"
    if len(names) <= NAMES_SHOWN:
        return f"there is {', '.join(names)}" if len(names) == 1 else f"there are {', '.join(names)}"
    return f"`headrace {kind} ls{place}` shows the {len(names)} that exist"


def _with_permission_hint(error: ConnectionFailed) -> ConnectionFailed:
    if "permissions violation" not in str(error).lower():
        return error
    return ConnectionFailed(str(error), hint="use a user that may publish to this subject and to its inbox")
