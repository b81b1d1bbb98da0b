"""Reads the words of a configuration file: spaces, comments, keys and scalar values.

The parser (file_format.py) handles nesting and asks this one for the next word. The meaning of a bare word is
decided here and follows nats-server 2.15 exactly, because configuration files depend on it:

    4222  -1  2.5          an integer, a float
    64MB  1k  1m           a size: k is 1000, kb ki kib are 1024; so `1m` is a million, not a minute
    10s  100ms  1h30m      a string (directives read durations from strings)
    127.0.0.1:4222         a string
    2026-01-31T00:00:00Z   a date; any other `digits-` is an error
    on yes true, off no    a boolean, in any case
    $NAME                  a reference; `$2a$...` is a bcrypt hash and stays a string
    anything else          a string that ends at a space, a tab or one of , ; ] }

Deliberately stricter than nats-server where it silently accepts a mistake: an unfinished quote, an unknown
size suffix, a key in a map with no value, a lone `/` in place of a comment or separator, NUL characters.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.errors import ConfigError

NEW_LINES = "\n\r"
SPACES_AND_TABS = " \t"
# White space in Unicode. str.isspace() also accepts the four separators U+001C to U+001F.
_SPACE_CLASS = "[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_SPACES = re.compile(f"{_SPACE_CLASS}*")
_COMMENT = re.compile(r"(?:#|//)[^\n\r]*")
_BARE_KEY = re.compile(rf"(?s:.)(?:(?!{_SPACE_CLASS})[^=:])*")
_BARE_RUN = re.compile(r"[^\n\r \t,;\]}'\\]*")
_BARE_INCLUDE = re.compile(r"[^\n\r \t;}']*")
_DIGITS = re.compile(r"\d+")
_SIZE_SUFFIX = re.compile(r"[kKmMgGtTpPeE][bBiI]*")
_ADDRESS_TAIL = re.compile(r"[\d.:-]*")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# A number ends here. `]` is missing from this list in nats-server, which therefore cannot read `[1]`;
# neither can we, so that a file that works here works there.
_NUMBER_ENDS = "\n\r \t,;}"

_POWERS = {letter: power for power, letter in enumerate("kmgtpe", start=1)}
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", '"': '"', "\\": "\\"}
_BCRYPT_PREFIX = "2a$"


@dataclass(frozen=True, slots=True)
class Reference:
    """`$name`, for the parser to look up."""

    name: str


Scalar = str | bool | int | float | datetime | Reference


class Scanner:
    """A text and a position in it. Methods move the position, and raise ConfigError."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.position = 0
        self._line_ends = [match.start() for match in re.finditer("\n", text)]
        if "\0" in text:
            self.position = text.index("\0")
            raise self.parse_error("a NUL character is not allowed")

    # Position

    def place(self, position: int) -> tuple[int, int]:
        """Line and column of a position (see Value for how columns count)."""
        lines_before = bisect_left(self._line_ends, position)
        return lines_before + 1, position - (self._line_ends[lines_before - 1] if lines_before else 0)

    def parse_error(self, reason: str) -> ConfigError:
        line, column = self.place(self.position)
        return ConfigError(
            f"Parse error on line {line}: '{reason}'", path=self.path, line=line, column=column
        )

    def peek(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.position : self.position + 1]

    def peek_name(self) -> str:
        """The next character as a message shows it."""
        character = self.peek()
        return {"": "end of file", "\n": "\\n", "\r": "\\r"}.get(character, character)

    def at_end(self) -> bool:
        return self.position >= len(self.text)

    # Spaces and comments

    def skip_blanks(self) -> None:
        """Spaces and tabs, but not new lines."""
        while self.peek() in (" ", "\t"):
            self.position += 1

    def skip_spaces(self) -> None:
        """Spaces, tabs and new lines."""
        match = _SPACES.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def skip_comment(self) -> bool:
        """One comment up to its end of line; returns whether there was one."""
        match = _COMMENT.match(self.text, self.position)
        if match is None:
            if self.peek() == "/":
                raise self.parse_error("a comment starts with '#' or '//'")
            return False
        self.position = match.end()
        return True

    def skip_spaces_and_comments(self) -> None:
        self.skip_spaces()
        while self.skip_comment():
            self.skip_spaces()

    # Keys and includes

    def key(self) -> tuple[str, int, bool]:
        """The next key, its position, and whether it is the bare word `include` followed by a space."""
        character = self.peek()
        if character in ("=", ":"):
            raise self.parse_error(f"Unexpected key separator '{character}'.")
        if character in ('"', "'"):
            start = self.position + 1
            return self._quoted(character), start, False
        match = _BARE_KEY.match(self.text, self.position)
        assert match is not None  # the caller has seen that this is not the end
        self.position = match.end()
        is_include = match.group().lower() == "include" and self.peek() not in ("", "=", ":")
        return match.group(), match.start(), is_include

    def skip_key_separator(self) -> bool:
        """At most one `=` or `:`, with any spaces and new lines before it; returns whether there was one."""
        self.skip_spaces()
        if self.peek() not in ("=", ":"):
            return False
        self.position += 1
        return True

    def include_path(self) -> str:
        self.skip_blanks()
        character = self.peek()
        if character in ('"', "'"):
            return self._quoted(character)
        if character == "" or character in "[{(-\\\n\r" or character.isdecimal():
            raise self.parse_error(f"Expected include value but found '{self.peek_name()}'")
        match = _BARE_INCLUDE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        if self.peek() == "'":
            self.position += 1
        return match.group()

    def _quoted(self, quote: str) -> str:
        """The text between two quotes, as it is."""
        end = self.text.find(quote, self.position + 1)
        if end < 0:
            raise self.parse_error("Unexpected EOF.")
        text = self.text[self.position + 1 : end]
        self.position = end + 1
        return text

    # Scalar values

    def scalar(self) -> Scalar:
        """The value that starts here, which is neither an array nor a map."""
        character = self.peek()
        if character == "'":
            return self._quoted("'")
        if character == '"':
            return self._double_quoted()
        if character == "(":
            return self._block()
        if character == "-" or character.isdecimal():
            return self._number()
        if character == ".":
            raise self.parse_error("Floats must start with a digit")
        if character and character in NEW_LINES:
            raise self.parse_error("Expected value but found new line")
        return self._bare(self.position)

    def _double_quoted(self) -> str:
        self.position += 1
        parts: list[str] = []
        while True:
            start = self.position
            while self.peek() not in ("", '"', "\\"):
                self.position += 1
            parts.append(self.text[start : self.position])
            if self.at_end():
                raise self.parse_error("Unexpected EOF.")
            if self.peek() == '"':
                self.position += 1
                return _join_bytes(parts)
            parts.append(self._escape())

    def _bare(self, start: int) -> Scalar:
        """A word without quotes that began at `start`; the position may be further on, after digits."""
        parts: list[str] = []
        while True:
            match = _BARE_RUN.match(self.text, self.position)
            assert match is not None
            self.position = match.end()
            parts.append(self.text[start : self.position])
            if self.peek() != "\\":
                break
            parts.append(self._escape())
            start = self.position
        word = _join_bytes(parts)
        if self.peek() == "'":  # a word may end with a quote, and is a string then
            self.position += 1
            return word
        return word if len(parts) > 1 else _meaning(word)

    def _escape(self) -> str:
        self.position += 1
        character = self.peek()
        self.position += 1
        if character in _ESCAPES:
            return _ESCAPES[character]
        if character != "x":
            raise self.parse_error(
                f"Invalid escape character '{character}'. Only the following escape characters are allowed: "
                '\\xXX, \\t, \\n, \\r, \\", \\\\.'
            )
        digits = self.text[self.position : self.position + 2]
        if not re.fullmatch("[0-9a-fA-F]{2}", digits):
            raise self.parse_error("Expected two hexadecimal digits after '\\x'")
        self.position += 2
        byte = int(digits, 16)
        return chr(byte) if byte < 0x80 else chr(0xDC00 + byte)  # joined to UTF-8 by _join_bytes

    def _block(self) -> str:
        """A block string: it ends at a line with nothing but `)`."""
        start = self.position + 1
        end = self.text.find("\n)\n", self.position)
        if end >= 0:
            self.position = end + 2
            return self.text[start : end + 1]
        if self.text.endswith("\n)") and len(self.text) - 2 >= self.position:
            # On the very last line nats-server keeps the parenthesis; so do we, or the digest would differ.
            self.position = len(self.text)
            return self.text[start:]
        self.position = len(self.text)
        raise self.parse_error("Unexpected EOF processing block.")

    # Numbers, and words that start like one

    def _number(self) -> Scalar:
        start = self.position
        negative = self.peek() == "-"
        self.position += negative
        match = _DIGITS.match(self.text, self.position)
        if match is None:
            raise self.parse_error(f"Expected a digit but got '{self.peek_name()}'.")
        self.position = match.end()
        character = self.peek()
        if character == ".":
            return self._float_or_address(start)
        if character and character in "kKmMgGtTpPeE":
            return self._size(start)
        if negative or not character or character in _NUMBER_ENDS:
            return self._integer(self.text[start : self.position])
        if character == "-":
            return self._date(start)
        self.position += 1  # whatever it is, even a quote or a bracket: the word continues
        return self._bare(start)

    def _integer(self, digits: str) -> int:
        if not digits.isascii():
            raise self.parse_error("expected an integer in the digits 0 to 9")
        # The length comes first: int() of a huge text is slow, and refused by Python with another error.
        if len(digits) > 400 or not -(2**63) <= int(digits) < 2**63:
            raise self.parse_error(f"integer '{digits[:40]}' is out of the range")
        return int(digits)

    def _size(self, start: int) -> Scalar:
        digits = self.text[start : self.position]
        match = _SIZE_SUFFIX.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        following = self.peek()
        if following and following not in _NUMBER_ENDS:  # `1m30s`, `1k5`
            return self._bare(start)
        suffix = match.group().lower()
        if suffix[1:] not in ("", "b", "i", "ib"):
            raise self.parse_error(f"unknown size suffix '{match.group()[:10]}'")
        size: int = self._integer(digits) * (1024 if suffix[1:] else 1000) ** _POWERS[suffix[0]]
        return (size + 2**63) % 2**64 - 2**63  # nats-server's 64-bit integers wrap round

    def _float_or_address(self, start: int) -> float | str:
        self.position += 1
        match = _DIGITS.match(self.text, self.position)
        if match is None:
            raise self.parse_error(
                f"Floats must have a digit after the '.', but got '{self.peek_name()}' instead."
            )
        self.position = match.end()
        if self.peek() == ".":
            tail = _ADDRESS_TAIL.match(self.text, self.position)
            assert tail is not None
            self.position = tail.end()
            return self.text[start : self.position]
        text = self.text[start : self.position]
        if not text.isascii():
            raise self.parse_error("expected a float in the digits 0 to 9")
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise self.parse_error(f"float '{text[:40]}' is out of the range")
        return number

    def _date(self, start: int) -> datetime:
        match = _DATE.match(self.text, start)
        if match is None or not match.group().isascii():
            raise self.parse_error("All ISO8601 dates must be in full Zulu form.")
        self.position = match.end()
        try:
            return datetime.strptime(match.group(), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except ValueError:
            raise self.parse_error(f"expected Zulu formatted DateTime, but got '{match.group()}'") from None


def _meaning(word: str) -> Scalar:
    """The value of a bare word."""
    if word.lower() in _TRUE:
        return True
    if word.lower() in _FALSE:
        return False
    if word.startswith("$") and not word[1:].startswith(_BCRYPT_PREFIX):
        return Reference(word[1:])
    return word


def _join_bytes(parts: list[str]) -> str:
    """The parts as one text, with UTF-8 bytes given as \\xXX decoded to characters."""
    text = "".join(parts)
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
