"""Transcripts as text: for failures and for the command line."""

from __future__ import annotations

import difflib
import textwrap

import pytest

from tests.interop.replay import Scene, Transcript
from tests.interop.session import Session

SHOWN_BYTES = 600


def shorten(data: bytes) -> bytes:
    """Long data without its middle."""
    if len(data) <= SHOWN_BYTES:
        return data
    return (
        data[: SHOWN_BYTES // 2]
        + b" ... %d bytes ... " % (len(data) - SHOWN_BYTES)
        + data[-SHOWN_BYTES // 2 :]
    )


def transcript_lines(transcript: Transcript) -> list[str]:
    return [line for scene in transcript for line in _scene_lines(scene)]


def differences(reference: Transcript, ours: Transcript) -> str:
    """A readable difference of two transcripts, empty when they are the same."""
    if reference == ours:
        return ""
    lines = difflib.unified_diff(
        transcript_lines(reference), transcript_lines(ours), "nats-server", "headrace", lineterm="", n=8
    )
    return "\n".join(lines) or "they differ in the middle of long data"


def fail_if_different(session: Session, reference: Transcript, ours: Transcript) -> None:
    if difference := differences(reference, ours):
        pytest.fail(f"{session.name} is answered differently\n{difference}", pytrace=False)


def side_by_side(reference: Transcript, ours: Transcript, width: int) -> str:
    half = (width - 3) // 2
    rows = [f"{'nats-server':<{half}} | headrace"]
    for left_scene, right_scene in zip(reference, ours, strict=True):
        left = _wrapped(_scene_lines(left_scene), half)
        right = _wrapped(_scene_lines(right_scene), half)
        for row in range(max(len(left), len(right))):
            left_cell = left[row] if row < len(left) else ""
            right_cell = right[row] if row < len(right) else ""
            rows.append(f"{left_cell:<{half}} {'|' if left_cell == right_cell else '#'} {right_cell}")
    return "\n".join(rows)


def _scene_lines(scene: Scene) -> list[str]:
    step = scene.step
    lines = [
        f"{step.on} {step.action} {shorten(step.data)!r}{f' in writes of {step.chunks}' * bool(step.chunks)}"
    ]
    for answer in scene.answers:
        received = answer.received.splitlines(keepends=True)
        lines += [f"    {answer.connection} <- {shorten(line)!r}" for line in received]
        if answer.fate != "open":
            lines.append(f"    {answer.connection} is {answer.fate}")
    return lines


def _wrapped(lines: list[str], width: int) -> list[str]:
    return [
        part for line in lines for part in textwrap.wrap(line, width, subsequent_indent="        ") or [""]
    ]
