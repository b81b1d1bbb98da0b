"""Runs a command in this process: starting Python for each would take most of the time of the tests."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest import mock

from headrace.cli.command import run
from tests.cli.commands import environment


@dataclass(frozen=True)
class Result:
    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()

    @property
    def json(self) -> Any:
        assert (self.code, self.errors) == (0, ""), self
        return json.loads(self.output)


def run_here(*arguments: str, stdin: bytes | None = None, **variables: str) -> Result:
    """As `tests.cli.commands.run` does, in this process. stdin is a file, or there is none."""
    output, errors = io.BytesIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(**variables), clear=True),
        _stdin(stdin),
        contextlib.redirect_stdout(io.TextIOWrapper(output, encoding="utf-8", write_through=True)),
        contextlib.redirect_stderr(errors),
    ):
        code = run(arguments)
        return Result(code, output.getvalue(), errors.getvalue())


@contextlib.contextmanager
def _stdin(data: bytes | None) -> Iterator[None]:
    with TemporaryFile() if data is not None else Path(os.devnull).open("rb") as file:
        if data is not None:
            file.write(data)
            file.seek(0)
        text = io.TextIOWrapper(file)
        with mock.patch("sys.stdin", text):
            yield
        text.detach()
