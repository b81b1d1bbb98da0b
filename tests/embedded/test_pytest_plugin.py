"""The fixtures, in a project of its own and in a process of its own, as users have them."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

PLAIN = """
import socket

def test_a_server(headrace_server):
    with socket.create_connection((headrace_server.host, headrace_server.port)) as client:
        assert client.recv(5) == b"INFO "
"""

WITH_NATS_PY = """
import nats
import pytest

@pytest.fixture
async def client(headrace_jetstream):
    client = await nats.connect(headrace_jetstream.url)
    yield client
    await client.close()

async def test_publish(client):
    streams = client.jetstream()
    await streams.add_stream(name="ORDERS", subjects=["orders.*"])
    assert (await streams.publish("orders.eu", b"one")).seq == 1

async def test_the_next_server_is_fresh(client):
    assert await client.jetstream().streams_info() == []
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-q", "-W", "error", "-p", "no:cacheprovider", *arguments)


def test_a_test_gets_a_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PLAIN)
    run(pytester, "-p", "no:asyncio").assert_outcomes(passed=1)


def test_tests_with_asyncio_get_a_fresh_server_each(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(WITH_NATS_PY)
    run(pytester).assert_outcomes(passed=2)


def test_workers_of_xdist_have_servers_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("k", range(8))
        def test_it(headrace_session_server, headrace_server, k, request):
            assert headrace_session_server.port != headrace_server.port
        """
    )
    run(pytester, "-n", "2", "-p", "no:asyncio").assert_outcomes(passed=8)


def test_the_server_of_the_session_is_the_same_for_all(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        PORTS = set()

        @pytest.fixture(scope="session")
        def headrace_session_options():
            return {"server_name": "mine"}

        @pytest.mark.parametrize("k", range(3))
        def test_it(headrace_session_server, k):
            PORTS.add(headrace_session_server.port)
            assert len(PORTS) == 1
            assert headrace_session_server.store_dir
        """
    )
    run(pytester, "-p", "no:asyncio").assert_outcomes(passed=3)


def test_options_come_from_a_fixture_and_from_markers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import json, socket
        import pytest

        pytestmark = pytest.mark.headrace(server_name="module", max_connections=9)

        @pytest.fixture
        def headrace_options():
            return {"server_name": "fixture", "max_payload": 700}

        def info(server):
            with socket.create_connection((server.host, server.port)) as client:
                return json.loads(client.makefile("rb").readline()[5:])

        def test_of_the_module(headrace_server):
            told = info(headrace_server)
            assert (told["server_name"], told["max_payload"]) == ("module", 700)

        @pytest.mark.headrace(server_name="mine", jetstream=True)
        def test_of_its_own(headrace_server):
            told = info(headrace_server)
            assert (told["server_name"], told["max_payload"], told["jetstream"]) == ("mine", 700, True)
        """
    )
    run(pytester, "--strict-markers", "-p", "no:asyncio").assert_outcomes(passed=2)


def test_a_wrong_option_is_an_error_of_the_test_that_names_the_right_one(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.headrace(max_paylod=1)
        def test_it(headrace_server):
            pass
        """
    )
    result = run(pytester, "-p", "no:asyncio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*Server has no option max_paylod*"])


def test_a_failed_test_shows_the_log_of_its_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PLAIN + "    assert False\n")
    result = run(pytester, "-p", "no:asyncio", "--log-level=INFO")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*headrace*Server is ready*"])


def test_a_project_that_uses_none_of_it_loads_none_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("headrace")
            loaded = {name for name in sys.modules if name.startswith("headrace")}
            assert loaded == {"headrace", "headrace.pytest_plugin"}
        """
    )
    run(pytester, "-p", "no:asyncio").assert_outcomes(passed=1)
