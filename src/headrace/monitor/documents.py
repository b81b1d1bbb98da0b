"""JSON documents in pieces, escaped as Go's encoder does it: indented for HTTP, compact for messages.

A list in a document may be an iterator. It is then read while the document is sent, so that a long response
neither needs its full size in memory nor blocks the event loop. A document whose first fields already need
long work is made by a generator, which yields at the end of each turn and returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import msgspec

Making = Generator[None, None, Mapping[str, Any]]
Counting = Generator[None, None, int]
Document = Mapping[str, Any] | Making | Counting
Encode = Callable[[object], Iterator[bytes]]

INDENT = b"  "

# Between quotes of a JSON text only; nothing else in it has these characters.
_ESCAPES = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))
_RARE_ESCAPES = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))

_SCALARS = {str, int, float, bool, type(None)}


def encode_value(value: object) -> bytes:
    """A value on one line."""
    text = msgspec.json.encode(value)
    for plain, escaped in _ESCAPES:
        if plain in text:
            text = text.replace(plain, escaped)
    if not text.isascii():
        for plain, escaped in _RARE_ESCAPES:
            text = text.replace(plain, escaped)
    return text


def encode_pieces(value: object, newline: bytes = b"\n") -> Iterator[bytes]:
    """A value on many lines: mappings, lists and iterators are expanded, everything else is on one line."""
    if isinstance(value, dict) and value and _SCALARS.issuperset(map(type, value.values())):
        # Most items of long lists are like this; formatting them in one go takes a sixth of the time.
        yield msgspec.json.format(encode_value(value), indent=len(INDENT)).replace(b"\n", newline)
    elif isinstance(value, Mapping):
        separator, inner = b"{", newline + INDENT
        for name, item in value.items():
            yield separator + inner + encode_value(name) + b": "
            yield from encode_pieces(item, inner)
            separator = b","
        yield b"{}" if separator == b"{" else newline + b"}"
    elif isinstance(value, (list, tuple, Iterator)):
        separator, inner = b"[", newline + INDENT
        for item in value:
            yield separator + inner
            yield from encode_pieces(item, inner)
            separator = b","
        yield b"[]" if separator == b"[" else newline + b"]"
    else:
        yield encode_value(value)


def encode_compact(value: object) -> Iterator[bytes]:
    """A value on one line; only mappings with iterators in them are expanded."""
    if isinstance(value, Mapping) and not _SCALARS.issuperset(map(type, value.values())):
        separator = b"{"
        for name, item in value.items():
            yield separator + encode_value(name) + b":"
            yield from encode_compact(item)
            separator = b","
        yield b"}"
    elif isinstance(value, Iterator) or (isinstance(value, (list, tuple)) and value):
        separator = b"["
        for item in value:
            yield separator
            yield from encode_compact(item)
            separator = b","
        yield b"[]" if separator == b"[" else b"]"
    else:
        yield encode_value(value)


def encode_document(document: Document, encode: Encode = encode_pieces) -> Iterator[bytes]:
    """An empty piece is the end of a turn in which the document was not finished."""
    if isinstance(document, Mapping):
        yield from encode(document)
        return
    while True:
        try:
            next(document)
        except StopIteration as made:
            yield from encode(made.value)
            return
        yield b""
