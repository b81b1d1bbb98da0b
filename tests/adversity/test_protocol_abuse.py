"""Peers that break the protocol: lines, sizes, bytes, headers and JSON (FAULTS 24-26, 29-32)."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.streams.api.routes import ROUTES
from tests.adversity.recorder import Connection
from tests.adversity.watch import KIB, MIB, Bystander, cpu_seconds, memory
from tests.frames import read_frames
from tests.servers import Server, running_server

PATIENCE_SECONDS = 30.0
QUIET = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'


def connect(server: Server) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while not (head := client.recv(65536)).endswith(b"\r\n"):
        assert head
    return client


def answer(server: Server, *pieces: bytes) -> bytes:
    """What the server says until it closes, or until the PONG of a PING at the end."""
    with connect(server) as client:
        received = b""
        with suppress(ConnectionError):  # what the server said before it hung up is there to be read
            for piece in (*pieces, b"PING\r\n"):
                client.sendall(piece)
        try:
            while b"PONG\r\n" not in received and (part := client.recv(65536)):
                received += part
        except ConnectionError:
            received += b"<reset>"
        return received.replace(b"PING\r\n", b"")  # the server's first one comes after two seconds


def test_an_endless_control_line_is_refused_and_takes_little_memory() -> None:
    with running_server("headrace") as server, Bystander(server.port) as bystander:
        for start in (b"PUB ", b"SUB ", b"CONNECT {", b"X"):
            said = answer(server, start + b"a" * MIB)
            assert (
                b"maximum control line exceeded" in said or b"Unknown Protocol" in said or b"<reset>" in said
            )
        before = memory(server.process.pid)
        clients = [connect(server) for _ in range(200)]
        for client in clients:
            client.sendall(b"PUB " + b"a" * 4000)
        for client in clients:  # a second piece each: the first has been read by then
            client.sendall(b"b")
        growth = (memory(server.process.pid) - before) / len(clients)
        for client in clients:
            client.close()
    print(f"endless control lines: {growth / KIB:.1f} KB per connection; {bystander.describe()}")
    assert growth <= 64 * KIB


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"PUB a 1048577\r\n", b"-ERR 'Maximum Payload Violation'\r\n"),
        (b"PUB a 1048577\r\n" + bytes(100_000), b"-ERR 'Maximum Payload Violation'\r\n"),
        (b"HPUB a 12 1048577\r\n", b"-ERR 'Maximum Payload Violation'\r\n"),
        (b"PUB a 9223372036854775807\r\n", b""),
        (b"PUB a 9223372036854775808\r\n", b""),
        (b"PUB a 18446744073709551617\r\n", b""),
        (b"PUB a 99999999999999999999999999\r\n", b""),
        (b"PUB a -1\r\n", b""),
        (b"HPUB a 9223372036854775808 9223372036854775809\r\n", b""),
    ],
)
def test_a_size_that_is_too_large_allocates_nothing(line: bytes, expected: bytes) -> None:
    with running_server("headrace") as server, running_server("nats-server") as reference:
        answer(server, QUIET)
        before = memory(server.process.pid, "VmPeak")
        said = [answer(one, QUIET + line).replace(b"<reset>", b"") for one in (server, reference)]
        growth = memory(server.process.pid, "VmPeak") - before
    print(f"{line[:40]!r}: {said[0]!r}, {growth / KIB:.0f} KB allocated")
    assert said[0] == said[1] or (b"Payload" in expected and said[0] in (expected, b""))
    assert growth < MIB


DIALOGUE = (
    QUIET
    + b"SUB a.* 1\r\nSUB b q 2\r\n"
    + b"PUB a.x 5\r\nhello\r\nPUB a.y r 2\r\n\r\n\r\npub a.x 0\r\n\r\n"
    + b"HPUB a.h 18 21\r\nNATS/1.0\r\nA: b\r\n\r\nPUB\r\n"
    + b"HPUB b r 12 12\r\nNATS/1.0\r\n\r\n\r\nUNSUB 2 2\r\n"
    + b"PUB b 1\r\nz\r\nPUB b 1\r\nz\r\nUNSUB 1\r\nPUB a.x 1\r\nx\r\n"
)


def test_frames_in_pieces_mean_the_same_as_whole() -> None:
    with running_server("headrace") as server:
        whole = answer(server, DIALOGUE)
        assert whole.count(b"MSG") == 6, whole
        assert answer(server, *(DIALOGUE[k : k + 1] for k in range(len(DIALOGUE)))) == whole
        for cut in range(1, len(DIALOGUE)):
            with connect(server) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.sendall(DIALOGUE[:cut])
                client.sendall(DIALOGUE[cut:] + b"PING\r\n")
                received = b""
                while b"PONG\r\n" not in received:
                    received += client.recv(65536)
                assert received == whole, f"cut at {cut}"
    print(f"{len(DIALOGUE)} bytes one by one and {len(DIALOGUE) - 1} cuts: all equal")


def test_every_byte_in_a_subject_is_treated_as_nats_server_does() -> None:
    different = []
    with running_server("headrace") as ours, running_server("nats-server") as theirs:
        for number in range(256):
            byte = bytes([number])
            for text in (
                b"SUB a%bb 1\r\nPUB a%bb 2\r\nhi\r\n" % (byte, byte),
                b"SUB a 1\r\nPUB a r%bs 3\r\n\x00\xff%b\r\n" % (byte, byte),
                b"SUB a 1\r\nHPUB a 18 19\r\nNATS/1.0\r\nA:%bb\r\n\r\n%b\r\n" % (byte, byte),
            ):
                said = [answer(one, QUIET + text).replace(b"<reset>", b"") for one in (ours, theirs)]
                if said[0] != said[1]:
                    different.append((text, *said))
    print(f"{256 * 3} frames with every byte in subject, reply, header and payload: {len(different)} differ")
    assert different == []


INJECTION = "x\r\nPUB injected 4\r\nevil\r\n"
INJECTIONS = (
    INJECTION,
    f"MSG injected 1 4\r\nevil{INJECTION}",
    "a b",
    "a\tb",
    "a\nb",
    "a\rb",
    "\r\n",
    "a\x00b",
)


def config_with(place: str, text: str) -> tuple[str, dict[str, object]]:
    """A request of the API that has the text in this place."""
    stream = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
    consumer = {"durable_name": "C", "deliver_subject": "d", "ack_policy": "none"}
    streams: dict[str, dict[str, object]] = {
        "subject": {**stream, "subjects": [text]},
        "name": {**stream, "name": text},
        "republish": {**stream, "republish": {"src": ">", "dest": text}},
        "transform": {**stream, "subject_transform": {"src": ">", "dest": text}},
        "description": {**stream, "description": text},
        "metadata": {**stream, "metadata": {text: text}},
    }
    if place in streams:
        return "$JS.API.STREAM.CREATE.S", streams[place]
    consumers: dict[str, dict[str, object]] = {
        "deliver_subject": {**consumer, "deliver_subject": text},
        "deliver_group": {**consumer, "deliver_group": text},
        "filter_subject": {**consumer, "filter_subject": text},
        "durable_name": {**consumer, "durable_name": text},
    }
    return "$JS.API.CONSUMER.CREATE.S", {"stream_name": "S", "config": consumers[place]}


STREAM_PLACES = ("subject", "name", "republish", "transform", "description", "metadata")
CONSUMER_PLACES = ("deliver_subject", "deliver_group", "filter_subject", "durable_name")


def test_line_ends_in_texts_inject_no_operation(tmp_path: Path) -> None:
    """Whoever listens to everything reads frames, and none that was smuggled in."""
    tried = 0
    with (
        running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server,
        connect(server) as listener,
    ):
        listener.sendall(QUIET + b"SUB > 1\r\n")
        with Connection(server.port) as client:
            for place in STREAM_PLACES + CONSUMER_PLACES:
                for text in INJECTIONS:
                    client.request("$JS.API.STREAM.DELETE.S")
                    if place in CONSUMER_PLACES:
                        client.request("$JS.API.STREAM.CREATE.S", config_with("description", "plain")[1])
                    client.request(*config_with(place, text))
                    header = f"NATS/1.0\r\nA: {text}\r\n\r\n".encode()
                    client.send(
                        b"HPUB s.a %d %d\r\n%bbody\r\n" % (len(header), len(header) + 4, header)
                        + b"PUB s.b %d\r\n%b\r\n" % (len(text.encode()), text.encode())
                    )
                    tried += 1
            client.request("$JS.API.STREAM.DELETE.S")
            client.send(b"PUB the.end 0\r\n\r\n")
        received = b""
        while b"MSG the.end 1 0\r\n\r\n" not in received:
            piece = listener.recv(1 << 20)
            assert piece
            received += piece
    frames, rest = read_frames(received)
    operations = {frame.operation for frame in frames}
    subjects = {frame.subject for frame in frames}
    print(f"{tried} texts with line ends, {len(frames)} frames: operations {sorted(operations)}, 0 injected")
    assert rest == b""
    assert operations <= {"MSG", "HMSG", "PONG", "INFO", "PING"}
    assert b"injected" not in subjects


def test_a_header_length_beyond_the_total_closes() -> None:
    with running_server("headrace") as server, running_server("nats-server") as reference:
        for line in (
            b"HPUB a 13 12\r\nNATS/1.0\r\n\r\n\r\n",
            b"HPUB a 18446744073709551615 12\r\nNATS/1.0\r\n\r\n\r\n",
            b"HPUB a -1 12\r\nNATS/1.0\r\n\r\n\r\n",
            b"HPUB a 0 0\r\n\r\n",
        ):
            said = [answer(one, QUIET + line).replace(b"<reset>", b"") for one in (server, reference)]
            assert said[0] == said[1], line
    print("4 impossible header lengths: answered as nats-server does")


def header_bomb(server: Server, lines: int, line: bytes) -> float:
    """CPU seconds for messages with this many header lines, per line."""
    header = b"NATS/1.0\r\n" + line * lines + b"\r\n"
    began = cpu_seconds(server.process.pid)
    with Connection(server.port) as client:
        for _ in range(20_000 * 20 // lines):
            client.send(b"HPUB bomb.a %d %d\r\n%b\r\n" % (len(header), len(header), header))
        client.ping()
    return cpu_seconds(server.process.pid) - began


@pytest.mark.parametrize("line", [b"Nats-Expected-Nothing: 1\r\n", b"A: b\r\n", b"Nats-\r\n", b": :\r\n"])
def test_a_header_bomb_takes_time_in_proportion_to_its_size(tmp_path: Path, line: bytes) -> None:
    """The same number of lines in all, in few messages and in many: a square would show as a factor of 20."""
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server:
        with Connection(server.port) as client:
            config = {"name": "B", "subjects": ["bomb.>"], "storage": "memory", "max_msgs": 1}
            client.request("$JS.API.STREAM.CREATE.B", config)
        with Bystander(server.port) as bystander:
            few, many = header_bomb(server, 1000, line), header_bomb(server, 20_000, line)
    print(f"headers {line!r}: {few:.2f} s of CPU for 400 x 1,000 lines, {many:.2f} s for 20 x 20,000; "
          f"{bystander.describe()}")  # fmt: skip
    assert many <= 4 * few + 0.5


DEEP = 100_000
BOMBS = {
    "arrays": b"[" * DEEP,
    "closed arrays": b"[" * DEEP + b"]" * DEEP,
    "objects": b'{"a":' * DEEP,
    "closed objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "inside a field": b'{"name":"S","subjects":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "long number": b'{"batch":' + b"9" * DEEP + b"}",
    "long fraction": b'{"batch":0.' + b"9" * DEEP + b"}",
    "large exponent": b'{"batch":1e999999999}',
    "many fields": b"{" + b",".join(b'"f%d":1' % n for n in range(10_000)) + b"}",
    "one field often": b'{"name":"S"' + b',"name":"S"' * 10_000 + b"}",
    "long text": b'{"name":"' + b"\\u0041" * 150_000 + b'"}',
}
SUBJECTS = sorted(
    "$JS.API." + route.pattern.replace("*", "S", 1).replace("*", "C", 1).replace(">", "C") for route in ROUTES
)


def test_json_bombs_in_requests_are_answered(tmp_path: Path) -> None:
    worst = ("", 0.0)
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server:
        pid = server.process.pid
        with Connection(server.port) as client, Bystander(server.port) as bystander:
            for name, bomb in BOMBS.items():
                began = cpu_seconds(pid)
                for subject in SUBJECTS:
                    reply = client.request(subject, bomb)
                    assert isinstance(reply, dict), subject
                average = (cpu_seconds(pid) - began) / len(SUBJECTS)
                worst = max(worst, (name, average), key=lambda entry: entry[1])
        assert "Traceback" not in server.log()
    print(
        f"{len(BOMBS)} JSON bombs x {len(SUBJECTS)} subjects: all answered, at most {worst[1] * 1000:.0f} ms "
        f"of CPU each ({worst[0]}); {bystander.describe()}"
    )
    assert worst[1] <= 0.05


def test_json_bombs_in_connect_close() -> None:
    with running_server("headrace", "max_control_line: 2MB\n") as server:
        began = cpu_seconds(server.process.pid)
        with Bystander(server.port) as bystander:
            for bomb in BOMBS.values():
                said = answer(server, b"CONNECT " + bomb + b"\r\n")
                assert said in (b"", b"<reset>") or b"+OK" in said or b"PONG" in said, said
            for bomb in (b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP):
                assert answer(server, b"CONNECT " + bomb + b"\r\n") in (b"", b"<reset>")
        spent = (cpu_seconds(server.process.pid) - began) / (len(BOMBS) + 2)
        assert "Traceback" not in server.log()
    print(f"{len(BOMBS)} JSON bombs in CONNECT: {spent * 1000:.0f} ms of CPU each; {bystander.describe()}")
    assert spent <= 0.05


def test_a_flood_of_requests_is_answered(tmp_path: Path) -> None:
    """FAULTS 33: everyone gets an answer, even if it is to come back later."""
    for limit in (0, 100):  # 0: the default
        text = f"jetstream {{ store_dir: '{tmp_path}/{limit}', request_queue_limit: {limit} }}\n"
        with running_server("headrace", text) as server, Bystander(server.port) as bystander:
            reset = memory(server.process.pid)
            answered, refused = flood(server, 20_000)
            growth = memory(server.process.pid) - reset
        print(
            f"20,000 requests at once (limit {limit or 'by default'}): {answered} answered, {refused} of "
            f"them 'too many requests', RSS {growth / MIB:+.1f} MiB; {bystander.describe()}"
        )
        assert answered == 20_000
        assert refused or not limit
        assert growth < 128 * MIB


def flood(server: Server, count: int) -> tuple[int, int]:
    create = json.dumps({"name": "F", "subjects": ["f"], "storage": "file"}).encode()
    requests = b"SUB _INBOX.* 1\r\nPUB $JS.API.STREAM.CREATE.F _INBOX.0 %d\r\n%b\r\n" % (len(create), create)
    requests += b"".join(b"PUB $JS.API.STREAM.INFO.F _INBOX.%d 0\r\n\r\n" % n for n in range(1, count))
    seen, refused = set(), 0
    with Connection(server.port) as client:
        client.socket.settimeout(PATIENCE_SECONDS)
        client.send(requests)
        for subject, _, body, _ in client.messages():
            seen.add(subject)
            refused += b"too many requests" in body
            if len(seen) == count:
                break
    return len(seen), refused
