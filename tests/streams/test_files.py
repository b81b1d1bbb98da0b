"""Checked files: the old one or the new one, never half of one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.streams.errors import StoreError
from headrace.streams.files import (
    child_directory,
    list_directory,
    make_directory,
    read_checked,
    retire_directory,
    write_checked,
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "meta.json")
    for body in (b"", b"one", b"two\nlines\n", bytes(range(256)) * 100):
        write_checked(path, body)
        assert read_checked(path) == body
    assert os.listdir(tmp_path) == ["meta.json"]


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    write_checked(str(path), b'{"name":"A"}')
    good = path.read_bytes()
    for place in range(len(good)):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(StoreError):
                read_checked(str(path))
        path.write_bytes(good[:place])
        with pytest.raises(StoreError):
            read_checked(str(path))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "/a", "a\\b", "a\0"])
def test_names_that_would_leave_the_directory_are_refused(name: str) -> None:
    with pytest.raises(StoreError):
        child_directory("streams", name)


def test_a_retired_directory_is_gone_at_the_next_look(tmp_path: Path) -> None:
    for name in ("a", "b", "x" * 255):
        make_directory(str(tmp_path / "streams" / name / "msgs"))
    for name in ("a", "x" * 255):
        retire_directory(str(tmp_path / "streams" / name), name)
    assert list_directory(str(tmp_path / "streams")) == ["b"]
    assert os.listdir(tmp_path / "streams") == ["b"]
    assert list_directory(str(tmp_path / "nothing")) == []
