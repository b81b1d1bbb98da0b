"""What a reload may change."""

from typing import Any

import pytest

from headrace.config import Options, User, plan_reload
from headrace.config.http_in import HttpInOptions
from headrace.config.operators.trust import TrustOptions
from headrace.config.reload import IGNORED_OPTIONS, RELOADABLE_OPTIONS, RESTART_OPTIONS
from headrace.config.websocket import WebSocketOptions
from headrace.errors import ConfigError

OTHER: dict[type, Any] = {
    str: "other:1",
    int: 12345,
    float: 77.0,
    bool: None,
    tuple: ("x",),
    dict: {"x": "y"},
    WebSocketOptions: WebSocketOptions(port=8080),
    HttpInOptions: HttpInOptions(port=8080),
    TrustOptions: TrustOptions(preload={"A": "x"}),
}


def other(name: str) -> Options:
    """Options in which one has another value."""
    value = getattr(Options(), name)
    return Options(**{name: not value if isinstance(value, bool) else OTHER.get(type(value), (User("a"),))})


@pytest.mark.parametrize("name", sorted(RELOADABLE_OPTIONS))
def test_a_reloadable_option_is_changed(name: str) -> None:
    plan = plan_reload(Options(), other(name))
    assert (plan.options, plan.changed) == (other(name), {name})


@pytest.mark.parametrize("name", sorted(RESTART_OPTIONS))
def test_an_option_that_needs_a_restart_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"config reload not supported for {name}: old="):
        plan_reload(Options(), other(name))


@pytest.mark.parametrize("name", sorted(IGNORED_OPTIONS))
def test_what_is_no_setting_is_no_change(name: str) -> None:
    assert plan_reload(Options(), other(name)).changed == set()


def test_one_refused_option_refuses_the_whole_reload() -> None:
    with pytest.raises(ConfigError):
        plan_reload(Options(), Options(debug=True, port=1))


def test_the_storage_directory_stays_while_streams_are_in_it() -> None:
    with pytest.raises(ConfigError, match="config reload not supported for jetstream storage directory"):
        plan_reload(Options(jetstream=True, store_dir="a"), Options(jetstream=True, store_dir="b"))


def test_any_free_port_keeps_the_port_that_was_chosen() -> None:
    plan = plan_reload(Options(port=40000, http_port=40001), Options(port=-1, http_port=-1))
    assert (plan.options.port, plan.options.http_port, plan.changed) == (40000, 40001, set())


def test_any_free_websocket_port_keeps_the_port_that_was_chosen() -> None:
    old, new = (Options(websocket=WebSocketOptions(port=port, no_tls=True)) for port in (40002, -1))
    assert plan_reload(old, new).changed == set()


def test_any_free_port_for_http_keeps_the_port_that_was_chosen() -> None:
    old, new = (Options(http_in=HttpInOptions(port=port)) for port in (40003, -1))
    assert plan_reload(old, new).options == old


def test_a_refused_change_of_websocket_shows_no_secret() -> None:
    old = Options(websocket=WebSocketOptions(port=8080, username="derek", password="s3cr3t", token="t0k3n"))
    with pytest.raises(ConfigError) as raised:
        plan_reload(old, Options())
    assert not {"derek", "s3cr3t", "t0k3n"} & set(str(raised.value).replace("'", " ").split())


def test_no_auth_user_may_go_together_with_its_user() -> None:
    old = Options(users=(User("a"), User("b")), no_auth_user="a")
    assert plan_reload(old, Options(users=(User("b"),))).auth_changed
    with pytest.raises(ConfigError):
        plan_reload(old, Options(users=old.users))


def test_a_plan_says_what_there_is_to_do() -> None:
    plan = plan_reload(Options(), Options(trace=True, token="x", max_payload=5))
    assert (plan.logging_changed, plan.auth_changed, plan.info_changed) == (True, True, True)
    plan = plan_reload(Options(), Options(ping_max=5))
    assert (plan.logging_changed, plan.auth_changed, plan.info_changed) == (False, False, False)


def test_a_bad_client_advertise_is_refused() -> None:
    with pytest.raises(ConfigError):
        plan_reload(Options(), Options(client_advertise="a:b"))
