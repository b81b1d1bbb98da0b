"""The error of a run without valid figures."""

from headrace.errors import HeadraceError


class BenchError(HeadraceError):
    """A run failed: the server did not start, broke a connection or lost messages. One line says which."""
