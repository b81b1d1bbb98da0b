"""Names that only a server knows, for the shell: streams, consumers, buckets, keys, objects.

Whoever presses the tab key wants an answer at once, and no error messages among what they type: no answer
within a second, no permission, no server all mean that there is nothing to propose.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.client import Client

ANSWER_SECONDS = 1.0
MOST = 200
"""More than that nobody reads."""

Ask = Callable[["Client", dict[str, Any]], Iterable[str]]
"""From a connected client and the parameters so far to names."""


def streams(client: Client, parameters: dict[str, Any]) -> Iterable[str]:
    return client.stream_names()


def consumers(client: Client, parameters: dict[str, Any]) -> Iterable[str]:
    answer = _request(client, f"CONSUMER.NAMES.{parameters['stream']}", {"offset": 0})
    return answer.get("consumers") or []


def buckets(prefix: str) -> Ask:
    def ask(client: Client, parameters: dict[str, Any]) -> Iterable[str]:
        names = client.stream_names()
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    return ask


def keys(client: Client, parameters: dict[str, Any]) -> Iterable[str]:
    bucket = parameters["bucket"]
    return [subject.split(".", 2)[2] for subject in _subjects(client, f"KV_{bucket}", f"$KV.{bucket}.>")]


def objects(client: Client, parameters: dict[str, Any]) -> Iterable[str]:
    bucket = parameters["bucket"]
    for subject in _subjects(client, f"OBJ_{bucket}", f"$O.{bucket}.M.>"):
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            yield base64.urlsafe_b64decode(subject.rpartition(".")[2]).decode()


def _subjects(client: Client, stream: str, pattern: str) -> Iterable[str]:
    answer = _request(client, f"STREAM.INFO.{stream}", {"subjects_filter": pattern})
    return (answer["state"].get("subjects") or {}).keys()


def _request(client: Client, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(client.request(f"$JS.API.{subject}", json.dumps(body).encode()))
    return answer


PROPOSALS: dict[str, dict[str, Ask]] = {
    "": {"stream": streams, "consumer": consumers},
    "kv": {"bucket": buckets("KV_"), "key": keys, "mirror": buckets("KV_"), "source": buckets("KV_")},
    "object": {"bucket": buckets("OBJ_"), "name": objects},
    "check kv": {"bucket": buckets("KV_"), "key": keys},
}
"""By the words before a parameter and its name; those without words count everywhere."""


def propose_names(group: click.Group, path: str = "") -> None:
    """Make all parameters of these names complete. Only a completion needs it."""
    for name, command in group.commands.items():
        words = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            propose_names(command, words)
        for parameter in command.params:
            for start, asks in PROPOSALS.items():
                if parameter.name in asks and f"{words} ".startswith(f"{start} ".lstrip()):
                    # click has no other way to set it after a parameter was made.
                    parameter._custom_shell_complete = _completer(asks[parameter.name])


def _completer(ask: Ask) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        if not ctx.params.get("server"):  # what was given is no URL
            return []
        with (
            _silence(),
            contextlib.suppress(HeadraceError, click.ClickException, OSError, LookupError, ValueError),
            _client(ctx) as client,
        ):
            names = sorted(name for name in ask(client, ctx.params) if name.startswith(incomplete))
            # A control character in a name would reach the terminal.
            return [CompletionItem(name) for name in names if name.isprintable()][:MOST]
        return []

    return complete


@connection_options
def _target_of(*, target: Target) -> Target:
    return target


@contextlib.contextmanager
def _client(ctx: click.Context) -> Iterator[Client]:
    from headrace.client import Client

    target_of: Any = _target_of
    names = {parameter.name for parameter in target_of.__click_params__}
    target: Target = target_of(**{name: ctx.params.get(name) for name in names})
    credentials = target.credentials
    with Client.connect(
        target.servers,
        user=credentials.user,
        password=credentials.password,
        token=credentials.token,
        creds=credentials.creds,
        nkey=credentials.nkey,
        tls=target.tls,
        name="headrace completion",
        connect_timeout=ANSWER_SECONDS,
        request_timeout=ANSWER_SECONDS,
        reconnect_timeout=0.0,
    ) as client:
        yield client


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield
