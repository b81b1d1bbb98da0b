"""Collects all errors in a configuration, so that one run reports every mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.config.values import Value
from headrace.errors import ConfigError


class ConfigFileError(ConfigError):
    """All mistakes in one file. `problems` has them one by one; str() has one line for each."""

    def __init__(self, problems: list[ConfigError]) -> None:
        first = problems[0]
        super().__init__(
            first.message, path=first.path, line=first.line, column=first.column, hint=first.hint
        )
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)

    @property
    def explained(self) -> str:
        return "\n".join(problem.explained for problem in self.problems)


class Problems:
    """Errors, which make a configuration unusable, and warnings, which do not (but fail `-t`)."""

    def __init__(self) -> None:
        self.errors: list[ConfigError] = []
        self.warnings: list[ConfigError] = []

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collects a ConfigError that is raised inside, and continues."""
        try:
            yield
        except ConfigError as error:
            self.errors.append(error)

    def warn(self, value: Value, field: str, reason: str) -> None:
        self.warnings.append(value.error(f'invalid use of field "{field}": {reason}'))
