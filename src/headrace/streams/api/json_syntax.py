"""Says what is wrong with invalid JSON, and where, in the words of nats-server's errors.

Only used after a real parser has refused the text, so it may be slow; it reads every byte once and keeps a
list of open brackets instead of recursing, so that deep nesting cannot overflow the stack.
"""

from __future__ import annotations

import re

MAX_DEPTH = 10_000
SPACE = b" \t\r\n"
DIGITS = b"0123456789"
SHORT_ESCAPES = b'bfnrt\\/"'
HEXADECIMAL = b"0123456789abcdefABCDEF"
PLAIN_TEXT = re.compile(rb'[^"\\\x00-\x1f]*')
MAX_STEPS = 60_000  # a longer text gets a shorter error: the server has other clients to serve
TOO_LONG = "invalid character in a long request"
END_OF_TEXT = "unexpected EOF"


class _Fault(Exception):
    """`args[0]` is the whole description."""


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text = text
        self.offset = 0
        self.steps = 0

    def peek(self) -> int:
        """The current byte; raises a fault at the end of the text, or after too many steps."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise _Fault(TOO_LONG)
        if self.offset >= len(self.text):
            raise _Fault(END_OF_TEXT)
        return self.text[self.offset]

    def skip_space(self) -> int:
        while self.peek() in SPACE:
            self.offset += 1
        return self.peek()

    def fail(self, context: str) -> _Fault:
        self.peek()
        character = self.text[self.offset : self.offset + 4].decode("utf-8", "replace")[0]
        shown = {"'": r"'\''", '"': "'\"'"}.get(character) or f"'{_escape(character)}'"
        return _Fault(
            f"invalid character {shown} {context} at offset {self.offset + len(character.encode())}"
        )

    def expect(self, allowed: bytes, context: str) -> None:
        if self.peek() not in allowed:
            raise self.fail(context)
        self.offset += 1

    def skip_digits(self) -> None:
        while self.offset < len(self.text) and self.text[self.offset] in DIGITS:
            self.offset += 1

    def string(self) -> None:
        self.offset += 1
        while (byte := self.skip_plain_text()) != ord('"'):
            if byte < 0x20:
                raise self.fail("in string")
            self.offset += 1
            self.escape()
        self.offset += 1

    def skip_plain_text(self) -> int:
        match = PLAIN_TEXT.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset
        return self.peek()

    def escape(self) -> None:
        """What follows a backslash."""
        length = 5 if self.peek() == ord("u") else 1
        escape = self.text[self.offset : self.offset + length]
        known = all(byte in HEXADECIMAL for byte in escape[1:]) if length > 1 else escape in SHORT_ESCAPES
        if len(escape) == length and not known:
            shown = escape.decode("utf-8", "replace")
            raise _Fault(f"invalid escape sequence `\\{shown}` in string at offset {self.offset + length}")
        self.offset += length

    def number(self) -> None:
        if self.peek() == ord("-"):
            self.offset += 1
        first = self.peek()
        self.expect(DIGITS, "in numeric literal")
        if first != ord("0"):
            self.skip_digits()
        if self.offset < len(self.text) and self.text[self.offset] == ord("."):
            self.offset += 1
            self.expect(DIGITS, "in numeric literal")
            self.skip_digits()
        if self.offset < len(self.text) and self.text[self.offset] in b"eE":
            self.offset += 1
            if self.peek() in b"+-":
                self.offset += 1
            self.expect(DIGITS, "in numeric literal")
            self.skip_digits()

    def word(self, word: str) -> None:
        for letter in word:
            self.expect(letter.encode(), f"in literal {word} (expecting '{letter}')")

    def scalar(self) -> None:
        byte = self.peek()
        words = {ord("t"): "true", ord("f"): "false", ord("n"): "null"}
        if byte == ord('"'):
            self.string()
        elif byte in b"-0123456789":
            self.number()
        elif byte in words:
            self.word(words[byte])
        else:
            raise self.fail("looking for beginning of value")

    def key(self) -> None:
        if self.skip_space() != ord('"'):
            raise self.fail("looking for beginning of object key string")
        self.string()
        self.skip_space()
        self.expect(b":", "after object key")

    def value(self) -> None:
        open_brackets: list[int] = []
        while True:
            byte = self.skip_space()
            if byte in b"{[":
                if len(open_brackets) >= MAX_DEPTH:
                    raise _Fault(f"exceeded max depth at offset {self.offset + 1}")
                open_brackets.append(byte)
                self.offset += 1
                if self.skip_space() not in (b"}" if byte == ord("{") else b"]"):
                    if byte == ord("{"):
                        self.key()
                    continue
            else:
                self.scalar()
            if not self.close(open_brackets):
                return

    def close(self, open_brackets: list[int]) -> bool:
        """After a value: close what ends here. Returns whether another value must follow."""
        while open_brackets:
            in_object = open_brackets[-1] == ord("{")
            byte = self.skip_space()
            if byte == ord(","):
                self.offset += 1
                if in_object:
                    self.key()
                return True
            end, context = (b"}", "object key:value pair") if in_object else (b"]", "array element")
            self.expect(end, f"after {context}")
            open_brackets.pop()
        return False


def explain(text: bytes) -> str:
    """What is wrong with the text; an empty string if it is valid."""
    reader = _Reader(text)
    try:
        while reader.offset < len(text):
            if text[reader.offset] in SPACE:
                reader.offset += 1
            else:
                reader.value()
    except _Fault as fault:
        return str(fault.args[0])
    return ""


def _escape(character: str) -> str:
    names = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "\0": r"\x00"}
    if character in names:
        return names[character]
    return character if character.isprintable() else f"\\x{ord(character):02x}"
