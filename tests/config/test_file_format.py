"""The configuration file format: what each piece of text means, and what is refused."""

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.file_format import MAX_DEPTH, parse_file, parse_text
from headrace.config.values import Value, digest
from headrace.errors import ConfigError

ENVIRONMENT = {
    "NUMBER": "7",
    "WORD": "hello",
    "BROKEN": "[",
    "SELF": "$SELF",
    "LEFT": "$RIGHT",
    "RIGHT": "$LEFT",
    "MAP": "{a: 1}",
    "CHAIN": "$NUMBER",
}


def plain(value: Value | Any) -> Any:
    if isinstance(value, Value):
        value = value.plain
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def parse(text: str) -> Any:
    return plain(parse_text(text, "test.conf", ENVIRONMENT))


MEANINGS: list[tuple[str, Any]] = [
    ("", {}),
    ("# nothing\n// here", {}),
    ("a 1", {"a": 1}),
    ("a: 1", {"a": 1}),
    ("a=1", {"a": 1}),
    ("a = 1; b: 2, c 3\nd = 4", {"a": 1, "b": 2, "c": 3, "d": 4}),
    ("a: 1 # one\nb: 2 // two", {"a": 1, "b": 2}),
    ("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    ('{"a": 1, "b": {"c": [true, "x"]}}', {"a": 1, "b": {"c": [True, "x"]}}),
    ("{ a: 1\n", {"a": 1}),  # a missing last brace
    ("a: 1\n}", {"a": 1}),  # and one too many
    ("{a: 1} b: 2", {"a": 1, "b": 2}),
    ("{{a: 1}, b: 2}", {"a": 1, "b": 2}),
    ("a\n{\nb: 1\n}", {"a": {"b": 1}}),
    ("a {b: 1, c: 2; d: 3\ne: 4}", {"a": {"b": 1, "c": 2, "d": 3, "e": 4}}),
    ("a {b:\n1}", {"a": {"b": 1}}),
    ("a {}\nb []", {"a": {}, "b": []}),
    ("a: [x, y,z]", {"a": ["x", "y", "z"]}),
    ("a: [\n x # first\n y\n\n z\n]", {"a": ["x", "y", "z"]}),
    ("a: [x, ]", {"a": ["x"]}),
    ("a: [1, -1]", {"a": [1, -1]}),
    ("a: [{b: 1}\n{b: 2}]", {"a": [{"b": 1}, {"b": 2}]}),
    ("a: 1\na: 2", {"a": 2}),
    ("a: ''\nb: \"\"", {"a": "", "b": ""}),
    ("'a b': 'c d'", {"a b": "c d"}),
    ('"a": b', {"a": "b"}),
    (r'a: "x\ty\n\"\\\x41"', {"a": 'x\ty\n"\\A'}),
    (r'a: "\xc3\xa9"', {"a": "é"}),
    (r"a: x\ty", {"a": "x\ty"}),
    (r"a: '\n'", {"a": r"\n"}),
    (r"a: tr\x75e", {"a": "true"}),
    ("a: (\nfirst\n  second )\n)\nb: 1", {"a": "\nfirst\n  second )\n", "b": 1}),
    ("a: /var/log/x#y", {"a": "/var/log/x#y"}),
    ("a: foo'\nb: true'", {"a": "foo", "b": "true"}),
    (
        "a: TRUE\nb: Yes\nc: on\nd: false\ne: NO\nf: off",
        dict(zip("abcdef", [True] * 3 + [False] * 3, strict=True)),
    ),
    ('a: "true"', {"a": "true"}),
    ("a: 0012\nb: -5", {"a": 12, "b": -5}),
    ("a: 1.5\nb: -0.25", {"a": 1.5, "b": -0.25}),
    ("a: 9223372036854775807", {"a": 2**63 - 1}),
    ("a: 1k\nb: 1K\nc: 1kb\nd: 1KiB\ne: 1ki", {"a": 1000, "b": 1000, "c": 1024, "d": 1024, "e": 1024}),
    (
        "a: 64MB\nb: 1m\nc: 2GB\nd: 1tb\ne: 1pb\nf: 1e",
        {"a": 64 << 20, "b": 10**6, "c": 2 << 30, "d": 1 << 40} | {"e": 1 << 50, "f": 10**18},
    ),
    ("a: 10s\nb: 100ms\nc: 1m30s\nd: 2h", {"a": "10s", "b": "100ms", "c": "1m30s", "d": "2h"}),
    ("a: 127.0.0.1:4222\nb: 12abc\nc: 1_000", {"a": "127.0.0.1:4222", "b": "12abc", "c": "1_000"}),
    ("a: 2026-01-31T01:02:03Z", {"a": datetime(2026, 1, 31, 1, 2, 3, tzinfo=UTC)}),
    ("a: $2a$10$hash", {"a": "$2a$10$hash"}),
    ("A: 5\nb: $A", {"A": 5, "b": 5}),
    ("A: 5\nx {A: 6\n b: $A}\nc: $A", {"A": 5, "x": {"A": 6, "b": 6}, "c": 5}),
    ("A: {b: 1}\nc: [$A]", {"A": {"b": 1}, "c": [{"b": 1}]}),
    ("a: $NUMBER\nb: $WORD\nc: $MAP\nd: $CHAIN", {"a": 7, "b": "hello", "c": {"a": 1}, "d": 7}),
    ("include: 5", {"include": 5}),
    ("a:", {"a": ""}),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS)
def test_text_has_this_meaning(text: str, meaning: Any) -> None:
    assert parse(text) == meaning


REFUSED = [
    "a",
    "a:\n1",
    ": 1",
    "a: 1 2",
    "a: [1]",  # as in nats-server
    "a: [x y]",
    "a: [,]",
    "a: [x,,y]",
    "a: [x",
    "a: [x}",
    "a: {b: 1",
    "a: {b: 1]",
    "a: {b: }",
    "a: {: 1}",
    "a: {b}",
    "{a: 1",
    "{{a: 1}\nb: 2}",
    'a: "x',
    "a: 'x",
    '"a',
    r'a: "\q"',
    r'a: "\xZZ"',
    r'a: "\x4',
    "a: (x)",
    "a: (\nx\n )\n",
    "a: -",
    "a: -x",
    "a: .5",
    "a: 5.",
    "a: 1.5s",
    "a: 9223372036854775808",
    "a: " + "9" * 100_000,
    "a: " + "9" * 1000 + ".5",
    "a: 1kbb",
    "a: 2026-13-31T01:02:03Z",
    "a: 2026-01-31",
    "a: 10-2",
    "a: ٣",
    "a: $NOT_THERE",
    "a: $",
    "a: $SELF",
    "a: $LEFT",
    "a: $BROKEN",
    "a: 1 /",
    "a: 1\0",
    "include not-there.conf",
    "include [x]",
    "include\n",
    "a: " + "[" * 100_000,
    "a: " + "{a:" * 100_000,
    "{" * 100_000,
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse(text)


def test_depth_up_to_the_limit_is_fine() -> None:
    depth = MAX_DEPTH - 1
    value = parse("a: " + "[" * depth + "]" * depth)["a"]
    while value:
        (value,) = value
        depth -= 1
    assert depth == 1


def test_a_deep_chain_of_references_has_no_digest_but_an_error() -> None:
    lines = ["v0: {x: 1}"] + [f"v{n}: {{x: $v{n - 1}}}" for n in range(1, 5000)]
    with pytest.raises(ConfigError, match="too deep"):
        digest(parse_text("\n".join(lines)))


def test_values_know_their_line_and_column() -> None:
    entries = parse_text('port: 1\n  host: "x"\nauthorization {\n  user: a, password: b\n}', "x.conf")
    places = {name: (value.path, value.line, value.column) for name, value in entries.items()}
    assert places == {"port": ("x.conf", 1, 0), "host": ("x.conf", 2, 3), "authorization": ("x.conf", 3, 1)}
    inner = entries["authorization"].mapping()
    assert (inner["password"].line, inner["password"].column) == (4, 12)


def test_an_error_names_file_line_and_column() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_text('{\n  "port": : "invalid syntax"\n}', "bad.conf")
    assert (caught.value.path, caught.value.line) == ("bad.conf", 2)
    assert str(caught.value).startswith("bad.conf:2:13: Parse error on line 2: ")


def test_an_error_about_a_kind_does_not_show_the_value() -> None:
    value = parse_text("a: hunter2")["a"]
    with pytest.raises(ConfigError) as caught:
        value.integer()
    assert "hunter2" not in str(caught.value)
    assert "expected an integer, got a string" in str(caught.value)


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.conf").write_text(text)


def test_include_reads_entries_of_another_file(tmp_path: Path) -> None:
    write(tmp_path, main="a: 1\ninclude 'sub/more.conf'\nx { include \"two.conf\"\n c: 3 }", two="b: 2")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.conf").write_text("include deep.conf; d: 4")
    (tmp_path / "sub" / "deep.conf").write_text("e: 5")
    entries = parse_file(str(tmp_path / "main.conf"))
    assert plain(entries) == {"a": 1, "e": 5, "d": 4, "x": {"b": 2, "c": 3}}
    assert entries["d"].path == str(tmp_path / "sub" / "more.conf")


def test_included_files_do_not_see_the_variables_of_the_file_that_includes_them(tmp_path: Path) -> None:
    write(tmp_path, main="A: 1\ninclude two.conf", two="b: $A")
    with pytest.raises(ConfigError, match="can not be found"):
        parse_file(str(tmp_path / "main.conf"))


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    write(tmp_path, one="include two.conf", two="include one.conf")
    with pytest.raises(ConfigError, match="includes itself"):
        parse_file(str(tmp_path / "one.conf"))


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    write(tmp_path, main="include two.conf", two="a: 1\nb: [")
    with pytest.raises(ConfigError) as caught:
        parse_file(str(tmp_path / "main.conf"))
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "two.conf"), 2)


def test_a_file_that_is_not_there_is_a_config_error(tmp_path: Path) -> None:
    path = str(tmp_path / "none.conf")
    with pytest.raises(ConfigError, match=f"^open {path}: no such file or directory$"):
        parse_file(path)
    with pytest.raises(ConfigError, match="is a directory"):
        parse_file(str(tmp_path))


PIECES = st.sampled_from(
    [*"{}[]():=,;#/\\\"'$ \n\t\r.-", "//", "a", "b", "1", "k", "MB", "true", "include ", "$NUMBER", "é"]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text_is_parsed_or_refused_with_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        digest(parse_text(text, "x.conf", ENVIRONMENT))


# JSON that the format can say: no \u escapes, no exponents, and no positive integer right before a bracket.
STRINGS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=20)
KEYS = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters='"\\'), min_size=1, max_size=8
)
SCALARS = st.one_of(
    STRINGS,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(-1e15, 1e15).map(lambda f: round(f, 3)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(KEYS, VALUES, max_size=5), st.sampled_from([None, 1, 3]))
def test_a_json_file_means_what_json_means(document: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(document, ensure_ascii=False, indent=indent).replace("]", " ]")
    assert plain(parse_text(text, "x.conf")) == json.loads(text)
