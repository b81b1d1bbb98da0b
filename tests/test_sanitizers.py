"""Which reports of the sanitizers count."""

from __future__ import annotations

import pytest

from tests.sanitizers import TRACED, matters

LEAKS = "==7==ERROR: LeakSanitizer: detected memory leaks\n\n{}SUMMARY: AddressSanitizer: 8 byte(s) leaked.\n"
LEAK = "Direct leak of 8 byte(s) in 1 object(s) allocated from:\n    #0 0x1 in malloc\n    #1 0x2 in f {}\n\n"
OURS = LEAK.format("build/base-sanitized/cython/src/headrace/engine/log.c:7")
OTHERS = LEAK.format("Objects/obmalloc.c:99")


@pytest.mark.parametrize(
    ("report", "counts"),
    [
        ("", False),
        (LEAKS.format(OTHERS), False),
        (LEAKS.format(OTHERS + OURS), True),
        (LEAKS.format(LEAK.format("(/x/headrace/engine/log.cpython-311.so+0x1)")), True),
        (f"==7==LeakSanitizer has encountered a fatal error.\n==7==HINT: {TRACED} (strace, gdb)\n", False),
        ("==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x1", True),
        ("==7==ERROR: AddressSanitizer: ILL on unknown address 0x1", True),
    ],
)
def test_errors_count_and_leaks_of_the_engine(report: str, counts: bool) -> None:
    assert matters(report) is counts
