"""`headrace auth`: what it makes works in both servers, and secrets stay where they belong."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import nats
import nats.errors
import pytest
from click.testing import CliRunner, Result

from headrace.cli.command import headrace, run
from headrace.keys.claims import UserClaims
from headrace.keys.jwt import decode_as, undecorated
from tests.certificates import Authority
from tests.cli.commands import assert_one_error_line
from tests.cli.commands import run as run_command
from tests.clients import PATIENCE_SECONDS
from tests.servers import Server, ServerKind, running_server


def auth(*arguments: str) -> Result:
    return CliRunner().invoke(headrace, ["auth", *arguments])


@pytest.fixture
def made(tmp_path: Path) -> Path:
    result = auth("init", str(tmp_path / "nats"), "--account", "APP", "--user", "anna")
    assert result.exit_code == 0, result.output
    return tmp_path / "nats"


def creds(directory: Path, user: str, account: str = "APP") -> str:
    return str(directory / "creds" / account / f"{user}.creds")


def serving(kind: ServerKind, directory: Path):
    return running_server(kind, flags=["-c", str(directory / "server.conf")])


async def connect(
    server: Server, path: str, *, client: nats.NATS | None = None, **options: object
) -> nats.NATS:
    async def ignore(_: Exception) -> None: ...

    client = client or nats.NATS()
    await client.connect(
        f"nats://{server.host}:{server.port}",
        **{
            "user_credentials": path,
            "allow_reconnect": False,
            "error_cb": ignore,
            "connect_timeout": PATIENCE_SECONDS,
            **options,
        },
    )
    return client


@pytest.mark.parametrize("kind", ["headrace", "nats-server"])
async def test_what_init_makes_works_in_both_servers(made: Path, kind: ServerKind) -> None:
    assert auth("account", "OTHER", "--dir", str(made)).exit_code == 0
    assert auth("user", "carl", "--account", "OTHER", "--dir", str(made)).exit_code == 0
    with serving(kind, made) as server:
        anna = await connect(server, creds(made, "anna"))
        carl = await connect(server, creds(made, "carl", "OTHER"))
        heard = await carl.subscribe("orders.>")
        own = await anna.subscribe("orders.>")
        await carl.flush()
        await anna.publish("orders.1", b"hi")
        assert (await own.next_msg(PATIENCE_SECONDS)).data == b"hi"
        stream = anna.jetstream(timeout=30)
        await stream.add_stream(name="S", subjects=["s.>"])
        assert (await stream.publish("s.1", b"kept")).seq == 1
        await carl.flush()
        assert heard.pending_msgs == 0
        # while it runs: another account, another user
        assert auth("account", "LATER", "--dir", str(made)).exit_code == 0
        assert auth("user", "dora", "--account", "LATER", "--dir", str(made)).exit_code == 0
        dora = await connect(server, creds(made, "dora", "LATER"))
        for client in (anna, carl, dora):
            await client.close()


@pytest.mark.parametrize("kind", ["headrace", "nats-server"])
async def test_a_user_that_is_revoked_is_cut_off(made: Path, kind: ServerKind) -> None:
    auth("user", "bert", "--dir", str(made))
    with serving(kind, made) as server:
        gone = asyncio.Event()

        async def on_closed() -> None:
            gone.set()

        anna = await connect(server, creds(made, "anna"))
        bert = await connect(server, creds(made, "bert"), closed_cb=on_closed)
        url = f"nats://{server.host}:{server.port}"
        result = await asyncio.to_thread(auth, "revoke", "bert", "--dir", str(made), "--server", url)
        assert result.exit_code == 0, result.output
        assert "Pushed 2 accounts" in result.output
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
        await anna.flush()
        refused = nats.NATS()
        with pytest.raises(nats.errors.Error):
            await connect(server, creds(made, "bert"), client=refused)
        await refused.close()
        await anna.close()
        await bert.close()


def test_tokens_are_pushed_over_tls_with_a_client_certificate(made: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    server, client = authority.issue("server"), authority.issue("client")
    files = f'cert_file: "{server.certificate}", key_file: "{server.key}", ca_file: "{authority.certificate}"'
    config = (made / "server.conf").read_text() + f"tls {{ {files}, verify: true, timeout: 30 }}\n"
    tls = ["--tls-ca", authority.certificate, "--tls-cert", client.certificate, "--tls-key", client.key]
    auth("user", "bert", "--dir", str(made))
    with running_server("headrace", config) as running:
        url = f"tls://{running.host}:{running.port}"
        result = run_command("auth", "revoke", "bert", "--dir", str(made), "-s", url, *tls)
        assert result.code == 0, result
        lines = result.text.splitlines()
        assert [line.split()[0] for line in lines] == ["Revoked", "Pushed"], lines
        assert_one_error_line(
            run_command("auth", "push", "--dir", str(made), "-s", url, *tls[:2]), "wants a client certificate"
        )


def test_tokens_are_not_pushed_to_a_server_without_tls_if_it_was_asked_for(made: Path) -> None:
    with serving("headrace", made) as server:
        url = f"tls://{server.host}:{server.port}"
        assert_one_error_line(run_command("auth", "push", "--dir", str(made), "-s", url), "has no TLS")


async def test_streams_of_an_account_are_there_after_a_restart(made: Path) -> None:
    with serving("headrace", made) as server:
        anna = await connect(server, creds(made, "anna"))
        await anna.jetstream(timeout=30).add_stream(name="S", subjects=["s.>"])
        await anna.jetstream(timeout=30).publish("s.1", b"kept")
        await anna.close()
    with serving("headrace", made) as server:
        anna = await connect(server, creds(made, "anna"))
        assert (await anna.jetstream(timeout=30).get_msg("S", 1)).data == b"kept"
        await anna.close()


def test_secrets_are_for_their_owner_only(made: Path) -> None:
    old = os.umask(0)
    try:
        auth("user", "bert", "--dir", str(made))
    finally:
        os.umask(old)
    secret = [path for name in ("keys", "creds") for path in (made / name, *(made / name).rglob("*"))]
    assert len(secret) > 8
    for path in secret:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    text = (made / "server.conf").read_text() + (made / "operator.jwt").read_text()
    for path in (made / "keys").rglob("*.nk"):
        assert path.read_text().strip() not in text


def test_init_says_what_to_do_next(tmp_path: Path) -> None:
    result = auth("init", str(tmp_path / "x"))
    for text in ("headrace-server -c", "server.conf", "app.creds", "headrace auth user"):
        assert text in result.output


def seeds(directory: Path) -> list[str]:
    return [path.read_text().strip() for path in directory.rglob("*.nk")]


def test_no_command_prints_a_seed(made: Path, tmp_path: Path) -> None:
    outputs = [
        auth("init", str(tmp_path / "y")).output,
        auth("user", "bert", "--dir", str(made)).output,
        auth("account", "B", "--dir", str(made)).output,
        auth("revoke", "bert", "--account", "APP", "--dir", str(made)).output,
        *(auth("show", str(path)).output for path in made.rglob("*") if path.is_file()),
    ]
    known = seeds(tmp_path)
    known += [
        line for path in tmp_path.rglob("*.creds") for line in path.read_text().split() if line[:2] == "SU"
    ]
    assert len(known) > 6
    for seed in known:
        assert all(seed not in output for output in outputs)


def test_show_tells_what_a_token_says(made: Path) -> None:
    auth(
        "user", "bert", "--dir", str(made), "--allow-pub", "a.>", "--deny-sub", "b", "--expires", "2090-01-02"
    )
    output = auth("show", creds(made, "bert")).output
    for text in (
        "kind        user",
        "name        bert",
        "allow     a.>",
        "deny      b",
        "2090-01-02T00:00:00",
    ):
        assert text in output
    assert "kind        operator" in auth("show", str(made / "operator.jwt")).output
    assert (
        "seed of a key of the kind operator (not shown)"
        in auth("show", str(made / "keys/operator.nk")).output
    )


def test_a_user_has_the_permissions_that_were_asked_for(made: Path) -> None:
    auth(
        *("user", "bert", "--dir", str(made), "--allow-pub", "a", "--allow-pub", "b", "--deny-pub", "c"),
        *("--allow-sub", "d queue", "--deny-sub", "e", "--allow-responses", "--bearer", "--expires", "1h"),
    )
    claims = decode_as(UserClaims, undecorated(Path(creds(made, "bert")).read_text()))
    assert (claims.nats.pub.allow, claims.nats.pub.deny) == (["a", "b"], ["c"])
    assert (claims.nats.sub.allow, claims.nats.sub.deny) == (["d queue"], ["e"])
    assert claims.nats.resp is not None
    assert claims.nats.bearer_token
    assert claims.expires > claims.issued_at


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("user", "anna"), "there is a user anna in account APP already"),
        (("user", "../x"), "'../x' cannot be a name"),
        (("user", "x", "--account", "NONE"), "there is no account NONE"),
        (("user", "x", "--account", "../keys"), "cannot be a name"),
        (("user", "x", "--allow-pub", "a..b"), "has an empty token"),
        (("user", "x", "--expires", "soon"), "neither a time span nor a day"),
        (("user", "x", "--expires", "1999-01-01"), "is over already"),
        (("account", "APP"), "there is an account APP"),
        (("account", "a/b"), "cannot be a name"),
        (("revoke", "nobody"), "there is no user nobody in account APP"),
        (
            ("push", "--server", "nats://127.0.0.1:1"),
            "as the system account: no server listens at 127.0.0.1:1",
        ),
    ],
)
def test_a_mistake_is_one_line(
    made: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert run(["auth", *arguments, "--dir", str(made)]) == 1
    shown = capsys.readouterr().err
    assert text in shown
    assert len(shown.splitlines()) == 1
    assert "this is a bug" not in shown


@pytest.mark.parametrize("content", ["", "nonsense", "eyJ.eyJ.x", "SUAAA", "\x00\xff"])
def test_a_file_that_is_no_token_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = tmp_path / "file"
    path.write_text(content, encoding="latin-1")
    assert run(["auth", "show", str(path)]) == 1
    assert f"{path} is neither a token nor a key" in capsys.readouterr().err
    assert run(["auth", "show", str(tmp_path / "none")]) == 1
    assert "cannot read" in capsys.readouterr().err


def test_a_directory_is_not_made_twice(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = seeds(made)
    assert run(["auth", "init", str(made)]) == 1
    assert "has an operator already" in capsys.readouterr().err
    assert seeds(made) == before
    assert run(["auth", "user", "x", "--dir", str(made / "none")]) == 1
    assert "is not a directory of `headrace auth`" in capsys.readouterr().err


def test_tokens_are_json_that_other_tools_read(made: Path) -> None:
    import base64

    for path in (made / "tokens").iterdir():
        payload = path.read_text().split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        assert claims["sub"] == path.name.removesuffix(".jwt")
