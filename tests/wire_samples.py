"""What one connection sends, and what nats-server answers: every operation, valid and invalid.

The answers were recorded from nats-server; `tests/interop/test_wire_samples.py` asks it again. They do not
depend on how the bytes are cut, so each sample is good for three tests: whole, byte by byte, and with
trailing data. What trails a complete sample is an operation of its own (a PING is answered with PONG), unless
the sample closes the connection: then nothing after it is answered.
"""

from __future__ import annotations

from dataclasses import dataclass

QUIET = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
VERBOSE = b'CONNECT {"verbose":true,"pedantic":false,"headers":true}\r\n'
PEDANTIC = b'CONNECT {"verbose":false,"pedantic":true,"headers":true}\r\n'
NO_ECHO = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"echo":false}\r\n'
NO_HEADERS = b'CONNECT {"verbose":false,"pedantic":false,"headers":false}\r\n'
NO_RESPONDERS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
NOTHING = b""


@dataclass(frozen=True)
class Sample:
    """Bytes sent after `connect` was answered, and all that comes back; INFO is left out everywhere.

    An incomplete sample ends inside an operation; it is answered when the rest arrives: nothing may trail it.
    """

    name: str
    sent: bytes
    answered: bytes
    closes: bool = False
    connect: bytes = QUIET
    complete: bool = True


SAMPLES: list[Sample] = [
    Sample("ping", b"PING\r\n", b"PONG\r\n"),
    Sample("ping lowercase", b"ping\r\n", b"PONG\r\n"),
    Sample("ping bare newline", b"PING\n", b"PONG\r\n"),
    Sample("ping trailing text", b"PING hello\r\n", b"PONG\r\n"),
    Sample("ping before connect", b"PING\r\n", b"PONG\r\n", connect=NOTHING),
    Sample("pong", b"PONG\r\n", b""),
    Sample("ok", b"+OK\r\n", b""),
    Sample("ok trailing text", b"+OK fine\r\n", b""),
    Sample("err closes", b"-ERR 'x'\r\n", b"", closes=True),
    Sample("info", b"INFO {}\r\n", b""),
    Sample("info bad json", b"INFO {\r\n", b"", closes=True),
    Sample("sub", b"SUB foo 1\r\n", b""),
    Sample("sub verbose", b"SUB foo 1\r\n", b"+OK\r\n", connect=VERBOSE),
    Sample("sub before connect", b"SUB foo 1\r\n", b"+OK\r\n", connect=NOTHING),
    Sample("sub queue", b"SUB foo workers 1\r\n", b""),
    Sample("sub tabs and spaces", b"sub \t foo\t 1 \r\nPUB foo 1\r\nx\r\n", b"MSG foo 1 1\r\nx\r\n"),
    Sample("sub bare newline", b"SUB foo 1\nPUB foo 1\r\nx\r\n", b"MSG foo 1 1\r\nx\r\n"),
    Sample("sub without arguments", b"SUB\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample("sub with empty arguments", b"SUB \r\n", b"", closes=True),
    Sample("sub one argument", b"SUB foo\r\n", b"", closes=True),
    Sample("sub four arguments", b"SUB foo a b c\r\n", b"", closes=True),
    Sample("sub invalid subject", b"SUB foo..bar 1\r\n", b"-ERR 'Invalid Subject'\r\n"),
    Sample("sub invalid subject verbose", b"SUB foo. 1\r\n", b"-ERR 'Invalid Subject'\r\n", connect=VERBOSE),
    Sample("sub wildcard in the middle", b"SUB foo.>.bar 1\r\n", b"-ERR 'Invalid Subject'\r\n"),
    Sample(
        "sub duplicate sid",
        b"SUB foo 1\r\nSUB bar 1\r\nPUB bar 1\r\nx\r\nPUB foo 1\r\ny\r\n",
        b"MSG foo 1 1\r\ny\r\n",
    ),
    Sample("unsub", b"SUB foo 1\r\nUNSUB 1\r\nPUB foo 1\r\nx\r\n", b""),
    Sample("unsub unknown", b"UNSUB 9\r\n", b"+OK\r\n", connect=VERBOSE),
    Sample(
        "unsub max",
        b"SUB foo 1\r\nUNSUB 1 2\r\nPUB foo 1\r\nx\r\nPUB foo 1\r\nx\r\nPUB foo 1\r\nx\r\n",
        b"MSG foo 1 1\r\nx\r\nMSG foo 1 1\r\nx\r\n",
    ),
    Sample(
        "unsub max reached",
        b"SUB foo 1\r\nPUB foo 1\r\nx\r\nPUB foo 1\r\nx\r\nUNSUB 1 2\r\nPUB foo 1\r\ny\r\n",
        b"MSG foo 1 1\r\nx\r\nMSG foo 1 1\r\nx\r\n",
    ),
    Sample("unsub max not a number", b"SUB foo 1\r\nUNSUB 1 x\r\nPUB foo 1\r\ny\r\n", b""),
    Sample("unsub without arguments", b"UNSUB\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample("unsub three arguments", b"UNSUB 1 2 3\r\n", b"", closes=True),
    Sample("pub without interest", b"PUB foo 2\r\nhi\r\n", b""),
    Sample("pub delivered", b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n", b"MSG foo 1 2\r\nhi\r\n"),
    Sample("pub with reply", b"SUB foo 1\r\nPUB foo bar 2\r\nhi\r\n", b"MSG foo 1 bar 2\r\nhi\r\n"),
    Sample("pub empty", b"SUB foo 1\r\nPUB foo 0\r\n\r\n", b"MSG foo 1 0\r\n\r\n"),
    Sample("pub lowercase and tabs", b"SUB foo 1\r\npub\tfoo\t\t2\r\nhi\r\n", b"MSG foo 1 2\r\nhi\r\n"),
    Sample(
        "pub verbose",
        b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n",
        b"+OK\r\n+OK\r\nMSG foo 1 2\r\nhi\r\n",
        connect=VERBOSE,
    ),
    Sample("pub no echo", b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n", b"", connect=NO_ECHO),
    Sample(
        "pub payload with line ends",
        b"SUB foo 1\r\nPUB foo 6\r\n\r\n\r\n\r\n\r\n",
        b"MSG foo 1 6\r\n\r\n\r\n\r\n\r\n",
    ),
    Sample(
        "pub payload like operations",
        b"SUB foo 1\r\nPUB foo 7\r\nUNSUB 1\r\nPUB foo 1\r\nx\r\n",
        b"MSG foo 1 7\r\nUNSUB 1\r\nMSG foo 1 1\r\nx\r\n",
    ),
    Sample("pub leading zeros", b"SUB foo 1\r\nPUB foo 002\r\nhi\r\n", b"MSG foo 1 002\r\nhi\r\n"),
    Sample("pub to wildcard", b"SUB foo 1\r\nPUB * 1\r\nx\r\n", b""),
    Sample(
        "pub valid pedantic", b"SUB foo 1\r\nPUB foo 1\r\nx\r\n", b"MSG foo 1 1\r\nx\r\n", connect=PEDANTIC
    ),
    Sample("pub without arguments", b"PUB\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample("pub one argument", b"PUB foo\r\n", b"", closes=True),
    Sample("pub four arguments", b"PUB foo bar 1 1\r\nx\r\n", b"", closes=True),
    Sample("pub size negative", b"PUB foo -1\r\n", b"", closes=True),
    Sample("pub size not a number", b"PUB foo x\r\n", b"", closes=True),
    Sample("pub size of ten digits", b"PUB foo 0000000001\r\nx\r\n", b"", closes=True),
    Sample("pub size beyond 64 bits", b"PUB foo 18446744073709551617\r\nx\r\n", b"", closes=True),
    Sample(
        "pub over max payload", b"PUB foo 1048577\r\n", b"-ERR 'Maximum Payload Violation'\r\n", closes=True
    ),
    Sample(
        "pub payload too long",
        b"PUB foo 2\r\nhiya\r\n",
        b"-ERR 'Unknown Protocol Operation'\r\n",
        closes=True,
    ),
    Sample(
        "pub payload without carriage return",
        b"PUB foo 2\r\nhi\n",
        b"-ERR 'Unknown Protocol Operation'\r\n",
        closes=True,
    ),
    Sample(
        "pub carriage return without newline",
        b"PUB foo 2\r\nhi\rx",
        b"-ERR 'Unknown Protocol Operation'\r\n",
        closes=True,
    ),
    Sample(
        "hpub delivered",
        b"SUB foo 1\r\nHPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        b"HMSG foo 1 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    ),
    Sample(
        "hpub with reply",
        b"SUB foo 1\r\nhpub foo bar 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        b"HMSG foo 1 bar 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
    ),
    Sample(
        "hpub only header",
        b"SUB foo 1\r\nHPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\n",
        b"HMSG foo 1 12 12\r\nNATS/1.0\r\n\r\n\r\n",
    ),
    Sample("hpub zero header", b"SUB foo 1\r\nHPUB foo 0 2\r\nhi\r\n", b"MSG foo 1 2\r\nhi\r\n"),
    Sample(
        "hpub unchecked header", b"SUB foo 1\r\nHPUB foo 5 7\r\nhellohi\r\n", b"HMSG foo 1 5 7\r\nhellohi\r\n"
    ),
    Sample("hpub header longer than total", b"HPUB foo 3 2\r\nhi\r\n", b"", closes=True),
    Sample("hpub two arguments", b"HPUB foo 2\r\nhi\r\n", b"", closes=True),
    Sample("hpub bad header size", b"HPUB foo x 2\r\nhi\r\n", b"", closes=True),
    Sample(
        "hpub over max payload",
        b"HPUB foo 12 1048577\r\n",
        b"-ERR 'Maximum Payload Violation'\r\n",
        closes=True,
    ),
    Sample("hpub without headers", b"HPUB foo 0 0\r\n\r\n", b"", closes=True, connect=NO_HEADERS),
    Sample("hpub before connect", b"HPUB foo 0 0\r\n\r\n", b"", closes=True, connect=NOTHING),
    Sample(
        "no responders",
        b"SUB r 1\r\nPUB foo r 0\r\n\r\n",
        b"HMSG r 1 35 35\r\nNATS/1.0 503\r\nNats-Subject: foo\r\n\r\n\r\n",
        connect=NO_RESPONDERS,
    ),
    Sample("no responders without inbox", b"PUB foo r 0\r\n\r\n", b"", connect=NO_RESPONDERS),
    Sample(
        "connect again drops subscriptions",
        b'SUB foo 1\r\nCONNECT {"verbose":false,"pedantic":false,"headers":true}\r\nPUB foo 1\r\nx\r\n',
        b"",
    ),
    Sample("connect bad json", b"CONNECT {\r\n", b"", closes=True, connect=NOTHING),
    Sample("connect bad type", b'CONNECT {"verbose":1}\r\n', b"", closes=True, connect=NOTHING),
    Sample("connect defaults are verbose", b"CONNECT {}\r\n", b"+OK\r\n", connect=NOTHING),
    Sample(
        "connect bad protocol",
        b'CONNECT {"verbose":false,"protocol":2}\r\n',
        b"-ERR 'invalid client protocol'\r\n",
        closes=True,
        connect=NOTHING,
    ),
    Sample(
        "connect no responders without headers",
        b'CONNECT {"verbose":false,"no_responders":true}\r\n',
        b"-ERR 'no responders requires headers support'\r\n",
        closes=True,
        connect=NOTHING,
    ),
    Sample("msg from client", b"MSG foo 1 1\r\nx\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample("unknown operation", b"HELLO\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample("empty line", b"\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample("leading space", b" PING\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample("misspelt", b"PUBX foo 1\r\n", b"-ERR 'Unknown Protocol Operation'\r\n", closes=True),
    Sample(
        "reserved publish",
        b"PUB $NRG.x 1\r\nx\r\n",
        b"-ERR 'Permissions Violation for Publish to \"$NRG.x\"'\r\n",
    ),
    Sample(
        "reserved reply",
        b"PUB foo _R_.x 1\r\nx\r\n",
        b"-ERR 'Permissions Violation for Publish with Reply of \"_R_.x\"'\r\n",
    ),
    Sample(
        "reserved queue",
        b"SUB foo _sys_ 1\r\n",
        b'-ERR \'Permissions Violation for Subscription to "foo" using queue "_sys_"\'\r\n',
    ),
    Sample("line at the limit", b"SUB " + b"s" * 4094 + b" 1\r\n", b""),
    Sample(
        "line over the limit",
        b"SUB " + b"s" * 4095 + b" 1\r\n",
        b"-ERR 'maximum control line exceeded'\r\n",
        closes=True,
    ),
    Sample(
        "several operations",
        b"SUB foo 1\r\nPUB foo 1\r\na\r\nPING\r\nUNSUB 1\r\nPUB foo 1\r\nb\r\nPING\r\n",
        b"MSG foo 1 1\r\na\r\nPONG\r\nPONG\r\n",
    ),
    Sample("half an operation", b"PIN", b"", complete=False),
    Sample("half a line", b"SUB foo", b"", complete=False),
    Sample("line without newline", b"SUB foo 1\r", b"", complete=False),
    Sample("half a payload", b"SUB foo 1\r\nPUB foo 4\r\nhi", b"", complete=False),
    Sample("payload without its end", b"SUB foo 1\r\nPUB foo 2\r\nhi\r", b"", complete=False),
]
