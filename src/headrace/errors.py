"""Exception families: the class says whose fault it was, the attributes are what the boundary needs.

A plain bug stays a plain Python exception; it is caught, logged and answered only at the edge of a room.
"""


class HeadraceError(Exception):
    """The base of every error that this package raises on purpose.

    `hint` is one line for the user: what to do next.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def explained(self) -> str:
        """With the hint, for where there is one line for both."""
        return f"{self} ({self.hint})" if self.hint else str(self)


class ProtocolError(HeadraceError):
    """The peer's fault. Its error text, and whether its connection is closed, is in broker/violations.py."""


class UsageError(HeadraceError):
    """Our caller's fault: a wrong flag, argument or call."""


class ConfigError(HeadraceError):
    """A mistake in a configuration file, with its position."""

    def __init__(
        self, message: str, *, path: str = "", line: int = 0, column: int = 0, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.line = line
        self.column = column

    def __str__(self) -> str:
        if not self.path:
            return self.message
        return (
            f"{self.path}:{self.line}:{self.column}: {self.message}"
            if self.line
            else f"{self.path}: {self.message}"
        )
