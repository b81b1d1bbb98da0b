"""Payloads for `json_decoder`, from a seed: good ones, and those that are almost good."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.spark.payload.json_model import LITERALS

SCHEMA = (
    "b TINYINT, h SMALLINT, i INT, l BIGINT, d DOUBLE, f FLOAT, e DECIMAL(6, 2), w DECIMAL(38, 18), "
    "z DECIMAL(18, 0), k DECIMAL(3, 3), s STRING, o BOOLEAN, y DATE, t TIMESTAMP, n TIMESTAMP_NTZ, "
    "q BIGINT NOT NULL"
)
TYPES: dict[str, Any] = {
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "l": "int64",
    "d": "double",
    "f": "float",
    "e": (6, 2),
    "w": (38, 18),
    "z": (18, 0),
    "k": (3, 3),
    "s": "string",
    "o": "boolean",
    "y": "date",
    "t": "timestamp",
    "n": "timestamp_ntz",
    "q": "int64!",
}
RIGHT: dict[str, list[str]] = {
    "b": ["1", "-128", "0"],
    "h": ["32767"],
    "i": ["-2147483648"],
    "l": ["9007199254740993", "-1"],
    "d": ["1.5", "1", "0.1", "1e5", "3.141592653589793"],
    "f": ["2.5", "0.1"],
    "e": ["12.34", '"1.5"'],
    "w": ["1.5", "12345678901.123"],
    "z": ["7"],
    "k": ["0.125"],
    "s": ['"x"', '"a\\nb"', '"é"', '""'],
    "o": ["true", "false"],
    "y": ['"2999-12-31"', '"2024-02-29"'],
    "q": ["1"],
    "t": ['"2026-01-01T00:00:00+02:00"', '"1969-12-31 23:59:59.9999999Z"'],
    "n": ['"2026-01-01T00:00:00.5"'],
}
MORE_LITERALS = [
    *(
        "1.",
        ".5",
        "-",
        "--1",
        "1e",
        "1e+",
        "1e5",
        "1E+2",
        "-1",
        "00",
        "-01",
        "0x1",
        "1_0",
        "1 2",
        "- 1",
        "0.",
        "0e0",
    ),
    *(
        "32767",
        "32768",
        "-32769",
        "-2147483649",
        "9223372036854775806",
        "-9223372036854775809",
        "18446744073709551616",
    ),
    *(
        "1" * 18,
        "1" * 19,
        "9" * 19,
        "1" * 20,
        "1" * 38,
        "1" * 39,
        "1" * 61,
        "1" * 1001,
        "0." + "1" * 59,
        "1e0001",
    ),
    *(
        "0.3",
        "2.5e-8",
        "123456789012345678.9",
        "9007199254740992",
        "9007199254740993.0",
        "16777217",
        "16777216",
        "1e23",
    ),
    *(
        "8.41",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "5e-324",
        "2.2250738585072011e-308",
        "1e-400",
        "-0e1",
    ),
    *(
        "3.4028235e38",
        "3.4028236e38",
        "0.1234567",
        "1e10",
        "1e11",
        "0.001",
        "0.9999",
        "0.999",
        "1.000",
        "999.999",
    ),
    *(
        "99999999999999999999.999999999999999999",
        "12345678901234567890.123456789012345678",
        "0.000000000000000001",
    ),
    *(
        "999999999999999999",
        "1000000000000000000",
        "-999999999999999999",
        "00.5",
        "tru",
        "truex",
        "True",
        "nul",
        "nulll",
    ),
    *('"0001-01-01T00:00:00+00:00"', '"9999-12-31T23:59:59Z"', '"9999-12-31T23:59:59-01:00"', '"2024-02-29"'),
    *(
        '"2023-02-29"',
        '"1900-02-29"',
        '"2000-02-29"',
        '"2026-00-01"',
        '"2026-13-01"',
        '"2026-01-00"',
        '"2026-04-31"',
    ),
    *(
        '"20x6-01-01"',
        '"99x9-01-01"',
        '"2026-01-01 "',
        '" 2026-01-01"',
        '"2026/01/01"',
        '"2026-01-01\\n"',
        '"-026-01-01"',
    ),
    *(
        '"2026-01-01T23:59:59.Z"',
        '"2026-01-01T23:59:59.1234567890Z"',
        '"2026-01-01t00:00:00Z"',
        '"2026-01-01T00:00:00z"',
    ),
    *(
        '"2026-01-01T00:00:00+18:00"',
        '"2026-01-01T00:00:00+17:59"',
        '"2026-01-01T00:00:00-18:01"',
        '"1969-12-31T23:59:59.5Z"',
    ),
    *(
        '"2026-01-01T00:00:00+1:00"',
        '"2026-01-01T00:00:00+0100"',
        '"2026-01-01T00:00:00-00:00"',
        '"2026-01-01T00:60:00Z"',
    ),
    *(
        '"2026-01-01T00:00:00 Z"',
        '"2026-01-01T00:00:00Z "',
        '"2026-01-01T00:00:00+01:60"',
        '"2026-01-01T0\\u0030:00:00Z"',
    ),
    *(
        '"\\u00e9\\u20ac"',
        '"\\u0022x"',
        '"\\u005b1.5"',
        '"\\/"',
        '"\\x"',
        '"\\u12"',
        '"\\u12g4"',
        '"\\"',
        '"\\\\"',
        '"a',
    ),
    *(
        '"[1.5"',
        '"{"',
        '"\\"1.5"',
        '"1.5\\n"',
        '"-1.5\\t"',
        '"1.5x"',
        '"\\n1.5"',
        '"\\u00311.5"',
        '"a\tb"',
        '"a\nb"',
        '"\x7f"',
    ),
    *(
        "'x'",
        '"\U0001f600"',
        '"' + "x" * 5000 + '"',
        '"\\b\\f\\n\\r\\t\\"\\\\\\/"',
        '"\\u0000"',
        '"\\uFFFF"',
        '"\\u07ff\\u0800"',
    ),
    *(
        "[" * 40 + "]" * 40,
        "[" * 20 + "]" * 20,
        "[1,]",
        "[,1]",
        "[1 2]",
        '{"a":1,}',
        '{"a" 1}',
        "{a:1}",
        '{"\\u0071":1}',
    ),
    *(
        '{"a":[{"b":"\\ud800"}]}',
        '{"a":[true,false,null,-1.5e3,"x\\n"]}',
        '{"q":5}',
        "[ ]",
        "{ }",
        "[NaN]",
        "/*x*/1",
        "1//",
    ),
]
ALL_LITERALS = [*LITERALS, *MORE_LITERALS]


def each_literal() -> Iterator[bytes]:
    """Every literal in every column, and where no column takes it."""
    for name in [*TYPES, "other"]:
        other = "" if name == "q" else '"q":1,'
        yield from (f'{{{other}"{name}":{literal}}}'.encode() for literal in ALL_LITERALS)


def numbers(seed: int, count: int) -> Iterator[bytes]:
    """Of all lengths, with and without a fraction and an exponent, in each column that takes numbers."""
    made = random.Random(seed)

    def digits(most: int) -> str:
        return "".join(made.choices("0123456789", k=made.randint(1, made.choice([2, 5, most]))))

    for _ in range(count):
        text = made.choice(["", "", "-"]) + made.choice(["0", str(int(digits(24)))])
        text += made.choice(["", f".{digits(24)}", f".{digits(24)}"])
        text += made.choice(["", "", f"{made.choice('eE')}{made.choice(['', '+', '-'])}{digits(3)}"])
        name = made.choice("bhildfewzkdfewd")
        quote = made.choice(["", "", '"']) if name in "ewzk" else ""
        yield f'{{"q":1,"{name}":{quote}{text}{quote}}}'.encode()


def moments(seed: int, count: int) -> Iterator[bytes]:
    """Dates and times, some with one character replaced."""
    made = random.Random(seed)
    for _ in range(count):
        year = made.choice([made.randint(0, 9999), 2026, 1970])
        day = f"{year:04}-{made.randint(0, 13):02}-{made.randint(0, 32):02}"
        time = (
            f"{made.choice('T ')}{made.randint(0, 24):02}:{made.randint(0, 60):02}:{made.randint(0, 60):02}"
        )
        fraction = made.choice(["", "." + "".join(made.choices("0123456789", k=made.randint(0, 10)))])
        zone = made.choice(
            ["", "Z", f"{made.choice('+-')}{made.randint(0, 19):02}:{made.choice([0, 30, 59, 60]):02}"]
        )
        text = day if made.random() < 0.3 else day + time + fraction + zone
        if made.random() < 0.2:
            place = made.randrange(len(text))
            text = text[:place] + made.choice("0129-+:.TZ zx") + text[place + 1 :]
        yield f'{{"q":1,"{made.choice("ytn")}":"{text}"}}'.encode()


def objects(seed: int, count: int) -> Iterator[bytes]:
    """Whole objects: fields in any order, some twice, some unknown; one in four has damaged bytes."""
    made = random.Random(seed)
    for _ in range(count):
        names = [name for name in RIGHT if name == "q" or made.random() < 0.4]
        if made.random() < 0.05:
            names.append(made.choice([*RIGHT, "other"]))
        odd = made.random() < 0.15
        fields = [f'"{name}"{_space(made)}:{_space(made)}{_literal(made, name, odd)}' for name in names]
        made.shuffle(fields)
        text = (
            f"{_space(made)}{{{_space(made)}{f'{_space(made)},'.join(fields)}{_space(made)}}}{_space(made)}"
        )
        data = text.encode()
        yield _damaged(made, data) if made.random() < 0.25 else data


def _literal(made: random.Random, name: str, odd: bool) -> str:
    if name == "other" or (odd and made.random() < 0.3):
        return made.choice(ALL_LITERALS)
    return "null" if made.random() < 0.05 else made.choice(RIGHT[name])


def _space(made: random.Random) -> str:
    return made.choice(["", "", "", " ", "\n", "\t\r "])


def _damaged(made: random.Random, data: bytes) -> bytes:
    place = made.randrange(len(data))
    byte = bytes([made.choice([made.randrange(256), *b'"\\{}[],:0 \x00\xff'])])
    return made.choice(
        [
            data[:place],
            data[:place] + byte + data[place:],
            data[:place] + byte + data[place + 1 :],
            data[:place] + data[place + 1 :],
            data + byte,
            b"\xef\xbb\xbf" + data,
        ]
    )
