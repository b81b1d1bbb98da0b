"""Reads the server of a pipeline file: its URLs, credentials and TLS, or that it is embedded.

`${NAME}` in a value is a variable of the environment, so that no secret needs to be in the file.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from headrace.client.credentials import Credentials, is_contents
from headrace.client.tls import Tls
from headrace.errors import UsageError
from headrace.spark.pipeline.document import Node
from headrace.spark.pipeline.specification import ServerSpec

_VARIABLE = re.compile(r"\$\{(\w+)\}")

CREDENTIALS = ("user", "password", "token", "creds", "nkey", "jwt", "seed")
FIELDS = ("url", *CREDENTIALS, "tls", "embedded", "store", "port")
TLS_FIELDS = ("ca", "cert", "key", "key_password", "server_name", "handshake_first", "insecure")


def resolve_path(path: str, directory: Path) -> str:
    """A path in the file: relative to the file, unless it is absolute or in another file system."""
    return path if "://" in path else str(directory / Path(path).expanduser())


def read_server(node: Node | None, directory: Path) -> ServerSpec:
    """Raises ConfigError."""
    if node is None:
        return ServerSpec(urls=("nats://127.0.0.1:4222",))
    if not isinstance(node.value, dict):
        urls = [filled(text, node) for text in node.texts("server")]
        if urls == ["embedded"]:
            return ServerSpec(store=str(directory / "streams"), node=node)
        if difflib.get_close_matches(urls[0], ["embedded"], cutoff=0.8):
            node.fail(f"`{urls[0]}` is neither a URL nor `embedded`", "did you mean `embedded`?")
        return ServerSpec(urls=tuple(urls))
    fields = node.fields("server", FIELDS)
    embedded = "embedded" in fields and fields["embedded"].switch("embedded")
    if embedded == ("url" in fields):
        node.fail("a server has either a `url`, or `embedded: true`")
    if embedded:
        store = fields["store"].text("store") if "store" in fields else "streams"
        port = fields["port"].number("port") if "port" in fields else -1
        return ServerSpec(store=resolve_path(store, directory), port=port, node=node)
    return ServerSpec(
        urls=tuple(filled(url, node) for url in fields["url"].texts("url")),
        credentials=_credentials(node, fields, directory),
        tls=_tls(fields["tls"], directory) if "tls" in fields else None,
    )


def check_reachable(server: ServerSpec, master: str) -> None:
    """Raises ConfigError for an embedded server, which listens on loopback, and workers on other machines."""
    if server.embedded and server.node and master and not runs_here(master):
        server.node.fail(
            f"the embedded server can only be reached from this machine, but the master {master} runs tasks"
            " on others",
            "start `headrace serve` where all of them reach it, and give its URL as `server`",
        )


def runs_here(master: str) -> bool:
    """Whether all processes of this master are on this machine."""
    return master == "local" or master.startswith(("local[", "local-cluster["))


def _credentials(node: Node, fields: Mapping[str, Node], directory: Path) -> Credentials:
    try:
        return Credentials(
            user=_text(fields, "user"),
            password=_text(fields, "password"),
            token=_text(fields, "token"),
            creds=_file(fields, "creds", directory),
            nkey=_file(fields, "nkey", directory),
            jwt=_file(fields, "jwt", directory),
            seed=_file(fields, "seed", directory),
        )
    except UsageError as error:
        node.fail(str(error), error.hint)


def _tls(node: Node, directory: Path) -> Tls:
    fields = node.fields("tls", TLS_FIELDS)
    return Tls(
        ca=_file(fields, "ca", directory),
        cert=_file(fields, "cert", directory),
        key=_file(fields, "key", directory),
        key_password=_text(fields, "key_password"),
        server_name=_text(fields, "server_name"),
        handshake_first=_switch(fields, "handshake_first"),
        insecure=_switch(fields, "insecure"),
    )


def _text(fields: Mapping[str, Node], name: str) -> str:
    return filled(fields[name].text(name), fields[name]) if name in fields else ""


def _file(fields: Mapping[str, Node], name: str, directory: Path) -> str:
    """A path, or the contents if a variable has them."""
    text = _text(fields, name)
    return text if not text or is_contents(text) else resolve_path(text, directory)


def _switch(fields: Mapping[str, Node], name: str) -> bool:
    return name in fields and fields[name].switch(name)


def filled(text: str, node: Node) -> str:
    """With variables of the environment. Raises ConfigError if there is none of that name."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            node.fail(
                f"the environment has no variable {match[1]}", f"set it: {match[1]}=… headrace pipeline …"
            )
        return os.environ[match[1]]

    return _VARIABLE.sub(value, text)
