"""The broker of tests/broker, with accounts."""

from tests.broker.conftest import start

__all__ = ["start"]
