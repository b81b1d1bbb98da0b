"""The size of things: how many files a folder of src/ has, how long files (tests too) and functions are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[1] / "src"
COMPILED = (".pyx", ".pxd")
SOURCES = sorted(path for path in SRC.rglob("*") if path.suffix in (".py", *COMPILED))

MAX_FILES, MAX_FILE_LINES, MAX_FUNCTION_LINES = 25, 500, 60

# Such as `cdef inline int name(...) except -1:` or `cdef (int, int) name(...):`; not a `cdef class`.
_FUNCTION = re.compile(
    r"(?:async def|def|cdef|cpdef)\s+(?!class\b|enum\b|struct\b|extern\b)(?:\([^)]*\)\s*)?[^=(#]*?(\w+)\s*\("
)


def name_of(path: Path) -> str:
    return str(path.relative_to(SRC))


def functions_of(path: Path) -> Iterator[tuple[str, int]]:
    """The name and length of each function, from its first line to its last."""
    if path.suffix in COMPILED:
        yield from compiled_functions(path.read_text())
    else:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno
                yield node.name, node.end_lineno - node.lineno + 1


def compiled_functions(source: str) -> Iterator[tuple[str, int]]:
    """By indentation. A declaration without a body, as in a .pxd, has one line."""
    lines = source.splitlines()
    for first, line in enumerate(lines):
        text = line.lstrip()
        found = _FUNCTION.match(text)
        if found is None:
            continue
        indent = len(line) - len(text)
        body = _end_of_head(lines, first)
        last = body
        for number in range(body + 1, len(lines)):
            if not lines[number].strip():
                continue
            if len(lines[number]) - len(lines[number].lstrip()) <= indent:
                break
            last = number
        yield found[1], last - first + 1


def _end_of_head(lines: list[str], first: int) -> int:
    """The line with the parenthesis that closes the arguments."""
    depth = 0
    for number in range(first, len(lines)):
        depth += lines[number].count("(") - lines[number].count(")")
        if depth <= 0:
            return number
    return first


def test_no_folder_has_too_many_files() -> None:
    """A .pyi or .pxd describes a module that has its own file, so modules are counted."""
    modules = {path.with_suffix("") for path in SOURCES}
    counts = Counter(name_of(module.parent) for module in modules)
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES} == {}


def test_no_file_is_too_long() -> None:
    long = {name_of(path) for path in SOURCES if len(path.read_text().splitlines()) > MAX_FILE_LINES}
    assert long == set(), "split them: a long file usually has a second responsibility"


def test_no_test_file_is_too_long() -> None:
    tests = Path(__file__).parent
    lengths = {
        str(path.relative_to(tests)): len(path.read_text().splitlines()) for path in tests.rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{name_of(path)}: {name}"
        for path in SOURCES
        for name, length in functions_of(path)
        if length > MAX_FUNCTION_LINES
    }
    assert long == set()


def test_compiled_functions_are_measured() -> None:
    source = (
        "cdef class A(B):\n"
        "    cdef int size\n"
        "    cdef object event(self)\n"
        "    cdef Status parse(self, const char *line,\n"
        "                      bint more) noexcept nogil:\n"
        '        """Text."""\n'
        "\n"
        "        return READY\n"
        "\n"
        "    def plain(self): return 1\n"
        "cdef (int, int) pair(int a) except *:\n"
        "    return a, a\n"
        "cdef int x = f(1)\n"
    )
    assert list(compiled_functions(source)) == [("event", 1), ("parse", 5), ("plain", 1), ("pair", 2)]
