"""Each fuzzer for a few seconds, with the installed engine: always the same inputs. `make fuzz` runs them
for long.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fuzz import __main__ as fuzz

pytest.importorskip("atheris", reason="has no wheel for this machine or this Python")

INPUTS = 10_000
SLOW_INPUTS = {"api": 3_000, "segments": 3_000}
SECONDS = 300  # of a machine that is busy with other things


@pytest.mark.timeout(SECONDS)
@pytest.mark.parametrize("name", fuzz.NAMES)
def test_some_inputs(name: str) -> None:
    result = fuzz.run(name, SLOW_INPUTS.get(name, INPUTS), seed=1, plain=True, keep=False)
    assert result.failure == "", (fuzz.BUILT / f"{name}-plain.log").read_text(errors="replace")[-3000:]
    assert result.inputs >= SLOW_INPUTS.get(name, INPUTS)


def test_corpora_are_small() -> None:
    sizes = {
        name: sum(file.stat().st_size for file in Path(fuzz.CORPUS, name).iterdir()) for name in fuzz.NAMES
    }
    assert min(sizes.values()) > 0
    assert sum(sizes.values()) < 500_000


@pytest.mark.timeout(SECONDS)
def test_merging_keeps_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "configuration"  # which needs no special build
    corpus = shutil.copytree(fuzz.CORPUS / name, tmp_path / "corpus" / name)
    before = len(list(corpus.iterdir()))
    for number in range(5):
        (corpus / f"again-{number}").write_bytes(b"\0port: 4222")
    monkeypatch.setattr(fuzz, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(fuzz, "BUILT", tmp_path / "built")
    assert fuzz.merge(name) == 0
    assert 0 < len(list(corpus.iterdir())) <= before + 1
