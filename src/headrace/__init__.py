"""A NATS server that you pip install, whose streams are Spark tables."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this
if TYPE_CHECKING:
    from headrace.embedded.server import Server

__all__ = ["Server", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`from headrace import Server` loads the server; `import headrace` does not."""
    if name != "Server":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headrace.embedded.server import Server

    return Server
