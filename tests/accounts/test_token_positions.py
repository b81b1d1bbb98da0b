"""`account_token_position` in tokens: an account imports the subjects that name it, and no others."""

from __future__ import annotations

import itertools

import pytest

from headrace.keys import claims as c
from headrace.keys.nkeys import KeyPair
from tests.interop import tokens
from tests.interop.session import pub
from tests.interop.signatures import fill_in_signatures, find_nonce
from tests.interop.wire import Wire
from tests.servers import Server, ServerKind, running_server

OWN, OTHER = tokens.TWO.public_key, tokens.STRANGER.public_key
WANTED = {"own": OWN, "other": OTHER, "all": "*"}
CASES = list(itertools.product(("stream", "service"), (False, True), WANTED))
SUBJECTS = {case: "-".join(map(str, case)) for case in CASES}


def settings() -> str:
    exports = [
        c.Export(subject=f"{subject}.*", type=kind, token_req=is_private, account_token_position=2)
        for (kind, is_private, _), subject in SUBJECTS.items()
    ]
    imports = [
        c.Import(subject=f"{subject}.{WANTED[wanted]}", type=kind, account=tokens.ONE.public_key)
        for (kind, _, wanted), subject in SUBJECTS.items()
    ]
    return tokens.memory_settings(
        tokens.account_token(tokens.SYSTEM),
        tokens.account_token(tokens.ONE, exports=exports),
        tokens.account_token(tokens.TWO, imports=imports),
    )


def enter(server: Server, user: KeyPair, account: KeyPair) -> Wire:
    wire = Wire(server.host, server.port)
    wire.read_line()
    nonce = find_nonce(wire.take())
    login = tokens.login(tokens.user_token(user, signer=account), user)
    wire.write(fill_in_signatures(login, nonce) + b"SUB > 1\r\n")
    wire.synchronise()
    wire.take()
    return wire


@pytest.mark.parametrize("kind", ["nats-server", "headrace"])
def test_only_subjects_with_its_name_cross(kind: ServerKind) -> None:
    with running_server(kind, settings()) as server:
        exporter = enter(server, tokens.USER, tokens.ONE)
        importer = enter(server, tokens.OTHER_USER, tokens.TWO)
        crossed = set()
        for case, subject in SUBJECTS.items():
            ways = (exporter, importer) if case[0] == "stream" else (importer, exporter)
            for name in (OWN, OTHER):
                ways[0].write(pub(f"{subject}.{name}".encode(), b"x"))
                for wire in ways:
                    wire.synchronise()
                if b"MSG " in ways[1].take():
                    crossed.add((*case, name))
                ways[0].take()
        exporter.hang_up()
        importer.hang_up()
    assert crossed == {(*case, OWN) for case in CASES if case[2] == "own"}
