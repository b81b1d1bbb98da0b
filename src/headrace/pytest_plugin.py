"""Fixtures for pytest, in every project that has Headrace installed. Loads nothing until one is used.

    headrace_server             a server without streams, for one test
    headrace_jetstream          a server with streams, for one test
    headrace_session_server     a server with streams, for all tests of a process

Options come from the fixture `headrace_options` (`headrace_session_options`), which a project can override,
and then from the marker `headrace`: `@pytest.mark.headrace(max_payload=1000)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headrace import Server


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "headrace(**options): options of the server that the fixtures of headrace start"
    )


@pytest.fixture
def headrace_options() -> dict[str, Any]:
    """Override it to give every server the same options."""
    return {}


@pytest.fixture(scope="session")
def headrace_session_options() -> dict[str, Any]:
    """The same for the server of the session."""
    return {}


@pytest.fixture
def headrace_server(request: pytest.FixtureRequest, headrace_options: dict[str, Any]) -> Iterator[Server]:
    """A server without streams."""
    yield from _serve({"jetstream": False, **headrace_options, **_marked(request)})


@pytest.fixture
def headrace_jetstream(request: pytest.FixtureRequest, headrace_options: dict[str, Any]) -> Iterator[Server]:
    """A server with streams, in a directory that is removed after the test."""
    yield from _serve({**headrace_options, **_marked(request)})


@pytest.fixture(scope="session")
def headrace_session_server(headrace_session_options: dict[str, Any]) -> Iterator[Server]:
    """One server with streams for all tests of this process; with xdist, each worker has its own."""
    yield from _serve(headrace_session_options)


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The nearest marker wins, option by option."""
    options: dict[str, Any] = {}
    for marker in request.node.iter_markers("headrace"):
        options = {**marker.kwargs, **options}
    return options


def _serve(options: dict[str, Any]) -> Iterator[Server]:
    from headrace import Server

    with Server(**options) as server:
        yield server
