"""From a snapshot to the lines of a screen. Nothing here knows a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.cli.human import size
from headrace.cli.output import one_line
from headrace.cli.tables import Column, cut, table_lines, wrapped
from headrace.cli.top.figures import (
    CONNECTION_ORDERS,
    CONNECTIONS,
    STREAM_ORDERS,
    STREAMS,
    Snapshot,
    sorted_streams,
)

CONNECTION_COLUMNS = [
    Column("HOST", flexible=True),
    Column("CID", number=True),
    Column("NAME", flexible=True, optional=1),
    Column("SUBS", number=True),
    Column("PENDING", number=True, optional=2),
    Column("MSGS_TO", number=True),
    Column("MSGS_FROM", number=True),
    Column("BYTES_TO", number=True),
    Column("BYTES_FROM", number=True),
    Column("LANG", optional=5),
    Column("VERSION", optional=6),
    Column("UPTIME", optional=3),
    Column("LAST ACTIVITY", optional=7),
]
SUBSCRIPTIONS = Column("SUBSCRIPTIONS", flexible=True, optional=4)
STREAM_COLUMNS = [
    Column("ACCOUNT", flexible=True, optional=2),
    Column("STREAM", flexible=True),
    Column("MESSAGES", number=True),
    Column("BYTES", number=True),
    Column("MSGS/S", number=True),
    Column("BYTES/S", number=True, optional=3),
    Column("FIRST", number=True, optional=4),
    Column("LAST", number=True),
    Column("CONS", number=True),
    Column("PENDING", number=True),
    Column("ACKS PENDING", number=True, optional=1),
]
COUNT_UNITS = ("", "K", "M", "G", "T")
HELP = """\
Tab             connections or streams
o               sort: type an order, then Enter; < and > go through them
space           rates per second instead of totals (connections)
n               how many connections to ask for: type a number, then Enter
s               subscriptions of connections
b               plain numbers
up, down, page  scroll
q, Ctrl-C       quit

Orders of connections: {connections}
Orders of streams: {streams}

Press any key""".format(connections=", ".join(CONNECTION_ORDERS), streams=", ".join(STREAM_ORDERS))


@dataclass
class Look:
    """What the user chose. `prompt` is what is being typed, if anything is."""

    view: str = CONNECTIONS
    connection_order: str = "cid"
    stream_order: str = "name"
    limit: int = 1024
    subscriptions: bool = False
    raw: bool = False
    rates: bool = False
    help: bool = False
    first_row: int = 0
    prompt: str = ""

    @property
    def order(self) -> str:
        return self.stream_order if self.view == STREAMS else self.connection_order

    @property
    def orders(self) -> tuple[str, ...]:
        return STREAM_ORDERS if self.view == STREAMS else CONNECTION_ORDERS

    def sort_by(self, order: str) -> None:
        if self.view == STREAMS:
            self.stream_order = order
        else:
            self.connection_order = order


def screen(snapshot: Snapshot, look: Look, error: str, width: int, height: int) -> list[str]:
    """At most `height` lines of at most `width` columns."""
    if look.help:
        return [line for text in HELP.splitlines() for line in wrapped(text, width)][:height]
    head = [*server_lines(snapshot, look.raw), look.prompt or one_line(error)]
    titles, *rows = body_lines(snapshot, look, width)
    room = max(0, height - len(head) - 3)
    look.first_row = max(0, min(look.first_row, len(rows) - room))
    shown = rows[look.first_row : look.first_row + room]
    more = len(rows) - look.first_row - len(shown)
    bottom = "q quit  ? help  Tab view  o sort"
    if more or look.first_row:
        bottom = f"rows {look.first_row + 1}-{look.first_row + len(shown)} of {len(rows)}  {bottom}"
    lines = [*head, _heading(snapshot, look), titles, *shown, bottom]
    return [cut(line, width) for line in lines[:height]]


def server_lines(snapshot: Snapshot, raw: bool) -> list[str]:
    varz, rates = snapshot.varz, snapshot.rates
    name, identifier = str(varz.get("server_name", "")), str(varz.get("server_id", ""))
    lines = [
        f"NATS server version {varz.get('version', '?')} (uptime: {varz.get('uptime', '?')})",
        f"Server: {identifier}" if name == identifier else f"Server: {name}  ID: {identifier}",
        f"  Load: CPU: {float(varz.get('cpu', 0)):.1f}%  Memory: {size(int(varz.get('mem', 0)))}"
        f"  Slow Consumers: {varz.get('slow_consumers', 0)}",
    ]
    for way in ("in", "out"):
        lines.append(
            f"  {way.title() + ':':<5} Msgs: {count(varz.get(f'{way}_msgs', 0), raw)}"
            f"  Bytes: {volume(varz.get(f'{way}_bytes', 0), raw)}"
            f"  Msgs/Sec: {rates.get(f'{way}_msgs', 0):.1f}"
            f"  Bytes/Sec: {volume(rates.get(f'{way}_bytes', 0), raw)}"
        )
    return [one_line(line) for line in lines]


def _heading(snapshot: Snapshot, look: Look) -> str:
    if snapshot.request.view == STREAMS:
        state = f"Streams: {len(snapshot.streams)}" if snapshot.has_jetstream else "JetStream is not enabled"
        return f"{state}  sorted by {look.stream_order}"
    shown = len(snapshot.connections)
    of = f" of {snapshot.total_connections}" if snapshot.total_connections > shown else ""
    rates = ", per second" if look.rates else ""
    return f"Connections: {shown}{of}  sorted by {look.connection_order}{rates}"


def body_lines(snapshot: Snapshot, look: Look, width: int | None) -> list[str]:
    """The table of the view; the first line has the titles."""
    if snapshot.request.view == STREAMS:
        rows = sorted_streams(snapshot.streams, look.stream_order)
        return table_lines(STREAM_COLUMNS, [_stream_row(row, look.raw) for row in rows], width)
    columns = [*CONNECTION_COLUMNS, SUBSCRIPTIONS] if look.subscriptions else CONNECTION_COLUMNS
    return table_lines(columns, [_connection_row(each, look) for each in snapshot.connections], width)


def _connection_row(connection: dict[str, Any], look: Look) -> list[str | int]:
    figures = connection["rates"] if look.rates else connection
    row: list[str | int] = [
        f"{connection.get('ip', '')}:{connection.get('port', '')}",
        str(connection.get("cid", "")),
        str(connection.get("name", "")),
        str(connection.get("subscriptions", 0)),
        count(connection.get("pending_bytes", 0), look.raw),
        count(figures.get("out_msgs", 0), look.raw),
        count(figures.get("in_msgs", 0), look.raw),
        volume(figures.get("out_bytes", 0), look.raw),
        volume(figures.get("in_bytes", 0), look.raw),
        str(connection.get("lang", "")),
        str(connection.get("version", "")),
        str(connection.get("uptime", "")),
        str(connection.get("last_activity", "")).partition(".")[0].replace("T", " "),
    ]
    if look.subscriptions:
        row.append(", ".join(map(str, connection.get("subscriptions_list") or [])))
    return row


def _stream_row(row: dict[str, Any], raw: bool) -> list[str | int]:
    return [
        row["account"],
        row["name"],
        count(row["messages"], raw),
        volume(row["bytes"], raw),
        count(row["rate"], raw),
        volume(row["byte_rate"], raw),
        str(row["first"]),
        str(row["last"]),
        str(row["consumers"]),
        count(row["pending"], raw),
        count(row["ack_pending"], raw),
    ]


def count(number: float, raw: bool) -> str:
    """`950`, `568.7K`, `1.6M`."""
    if raw or number < 1000:
        return f"{number:.0f}"
    place = 0
    while number >= 999.95 and place < len(COUNT_UNITS) - 1:
        number, place = number / 1000, place + 1
    return f"{number:.1f}{COUNT_UNITS[place]}"


def volume(number: float, raw: bool) -> str:
    return f"{number:.0f}" if raw else size(int(number)).replace(" ", "").replace("iB", "")
