"""Schemas as Spark writes them: `id BIGINT NOT NULL, price DECIMAL(10, 2), tags ARRAY<STRING>`.

Spark has a parser, but in Java; this one finds a typo before Spark starts, and says in which column it is.
The grammar is Spark's, without the types that no table format can hold:

    columns = column {"," column}
    column  = name [":"] type ["NOT" "NULL"] ["COMMENT" text]
    type    = word ["(" number {"," number} ")"] | "ARRAY" "<" type ">" | "MAP" "<" type "," type ">"
            | "STRUCT" "<" columns ">"
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.errors import UsageError

SIMPLE: dict[str, type[DataType]] = {
    "BIGINT": LongType,
    "BINARY": BinaryType,
    "BOOLEAN": BooleanType,
    "BYTE": ByteType,
    "DATE": DateType,
    "DOUBLE": DoubleType,
    "FLOAT": FloatType,
    "INT": IntegerType,
    "INTEGER": IntegerType,
    "LONG": LongType,
    "REAL": FloatType,
    "SHORT": ShortType,
    "SMALLINT": ShortType,
    "STRING": StringType,
    "TIMESTAMP": TimestampType,
    "TIMESTAMP_LTZ": TimestampType,
    "TIMESTAMP_NTZ": TimestampNTZType,
    "TINYINT": ByteType,
}
WORDS = (*SIMPLE, "ARRAY", "DEC", "DECIMAL", "MAP", "NUMERIC", "STRUCT")
EXAMPLE = "write it like `id BIGINT NOT NULL, price DECIMAL(10, 2), tags ARRAY<STRING>`"
MAX_DECIMAL_DIGITS = 38

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<word>\w+)|(?P<mark>[<>(),:]))"""
)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def parse_ddl(text: str) -> StructType:
    """Raises UsageError, which names the column or the place."""
    return _Parser(text).whole()


def ddl(schema: StructType) -> str:
    """The text that `parse_ddl` turns into this schema."""
    return ", ".join(_column_text(field, " ") for field in schema.fields)


def type_text(kind: DataType) -> str:
    """A type as people write it: `ARRAY<STRUCT<a: INT>>`."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(_column_text(field, ': ') for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_text(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{type_text(kind.keyType)}, {type_text(kind.valueType)}>"
    if isinstance(kind, DecimalType):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return kind.simpleString().upper()


def _column_text(field: StructField, separator: str) -> str:
    name = field.name if _PLAIN_NAME.fullmatch(field.name) else f"`{field.name.replace('`', '``')}`"
    return f"{name}{separator}{type_text(field.dataType)}{'' if field.nullable else ' NOT NULL'}"


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    place: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._next = 0
        self._path: list[str] = []

    def whole(self) -> StructType:
        schema = self._columns()
        if self._token() is not None:
            raise self._expected("a comma or the end")
        return schema

    def _split(self, text: str) -> list[_Token]:
        tokens, place, end = [], 0, len(text.rstrip())
        while place < end:
            found = _TOKEN.match(text, place)
            if found is None:
                place += len(text[place:]) - len(text[place:].lstrip())
                raise UsageError(
                    f"the schema has an unexpected {text[place]!r} at character {place + 1}", hint=EXAMPLE
                )
            kind = found.lastgroup or ""
            tokens.append(_Token(kind, found[kind], found.start(kind)))
            place = found.end()
        return tokens

    def _token(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _accept(self, *texts: str) -> bool:
        """Whether the next tokens are these words or marks; if so, they are consumed."""
        following = self._tokens[self._next : self._next + len(texts)]
        found = [token.text.upper() for token in following if token.kind in ("word", "mark")]
        if found != list(texts):
            return False
        self._next += len(texts)
        return True

    def _need(self, mark: str) -> None:
        if not self._accept(mark):
            raise self._expected(repr(mark))

    def _expected(self, what: str) -> UsageError:
        token = self._token()
        where = f", column {'.'.join(self._path)}" if self._path else ""
        found = f"{token.text!r} at character {token.place + 1}" if token else "the end"
        return UsageError(f"schema{where}: expected {what}, found {found}", hint=EXAMPLE)

    def _columns(self) -> StructType:
        fields: list[StructField] = []
        while True:
            fields.append(self._column())
            if not self._accept(","):
                break
        names: set[str] = set()
        for field in fields:
            if field.name.lower() in names:
                path = ".".join([*self._path, field.name])
                raise UsageError(
                    f"the schema has the column {path} twice", hint="upper and lower case are the same here"
                )
            names.add(field.name.lower())
        return StructType(fields)

    def _column(self) -> StructField:
        token = self._token()
        if token is None or token.kind not in ("word", "quoted"):
            raise self._expected("a column name")
        self._next += 1
        name = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
        self._path.append(name)
        self._accept(":")
        kind = self._type()
        nullable = not self._accept("NOT", "NULL")
        if self._accept("COMMENT"):
            comment = self._token()
            if comment is None or comment.kind != "text":
                raise self._expected("a comment in quotes")
            self._next += 1
        self._path.pop()
        return StructField(name, kind, nullable)

    def _type(self) -> DataType:
        token = self._token()
        if token is None or token.kind != "word":
            raise self._expected("a type")
        word = token.text.upper()
        if word not in WORDS:
            raise self._unknown_type(token.text)
        self._next += 1
        if word in SIMPLE:
            return SIMPLE[word]()
        if word in ("DECIMAL", "DEC", "NUMERIC"):
            return self._decimal()
        self._need("<")
        kind: DataType
        if word == "ARRAY":
            kind = ArrayType(self._type())
        elif word == "MAP":
            key = self._type()
            self._need(",")
            kind = MapType(key, self._type())
        else:
            kind = self._columns()
        self._need(">")
        return kind

    def _decimal(self) -> DecimalType:
        if not self._accept("("):
            return DecimalType(10, 0)
        digits, scale = self._number(), 0
        if self._accept(","):
            scale = self._number()
        self._need(")")
        if not 1 <= digits <= MAX_DECIMAL_DIGITS or scale > digits:
            raise UsageError(
                f"schema, column {'.'.join(self._path)}: there is no DECIMAL({digits}, {scale})",
                hint=f"it has 1 to {MAX_DECIMAL_DIGITS} digits, of which the second number are fractional",
            )
        return DecimalType(digits, scale)

    def _number(self) -> int:
        token = self._token()
        if token is None or not token.text.isdecimal():
            raise self._expected("a number")
        self._next += 1
        return int(token.text)

    def _unknown_type(self, word: str) -> UsageError:
        close = difflib.get_close_matches(word.upper(), WORDS, n=1)
        if word.upper() in ("VARCHAR", "CHAR", "TEXT"):
            close = ["STRING"]
        hint = f"did you mean {close[0]}?" if close else f"types are {', '.join(sorted(WORDS))}"
        return UsageError(f"schema, column {'.'.join(self._path)}: {word} is not a type", hint=hint)
