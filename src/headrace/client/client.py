"""A blocking client of any NATS server, made for columns: whole ranges of streams in, whole batches out.

    with Client.connect("nats://127.0.0.1:4222") as client:
        info = client.stream_info("ORDERS")
        for batch in client.fetch_range("ORDERS", info.first_seq, info.last_seq):
            ...                                    # a pyarrow.RecordBatch

Not thread-safe. A fetch or a publisher in progress has its own connection, so a loop may publish what it
reads; connections are reused.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from headrace.client.addresses import parse_servers
from headrace.client.api import (
    PREFIX,
    ConsumerAnswer,
    StreamAnswer,
    StreamInfo,
    StreamNames,
    decode,
    encode,
    stream_info,
)
from headrace.client.connection import ServerConnection, protocol_error
from headrace.client.credentials import Credentials
from headrace.client.errors import ConnectionFailed, ProtocolError, UsageError
from headrace.client.fetch import Batch, Fetch
from headrace.client.frames import BadFrame, ConnectionEnded
from headrace.client.publish import Publisher, publish_plain
from headrace.client.ranges import Range, RangeOptions
from headrace.client.tls import Tls
from headrace.errors import HeadraceError
from headrace.go_formats import format_time

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.client.columns import Columns

RECONNECT_SECONDS = 30.0

Answer = TypeVar("Answer")


class Client:
    """Make one with `connect`. Every error is a HeadraceError with one line that says what is wrong."""

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        request_timeout: float,
        reconnect_timeout: float,
        **options: Any,
    ) -> None:
        self.request_timeout = request_timeout
        self.reconnect_timeout = reconnect_timeout
        self._servers = parse_servers(servers)
        self._options = {**options, "reconnect_timeout": reconnect_timeout}
        self._open: set[ServerConnection] = set()
        self._idle: list[ServerConnection] = []
        self._was_connected = False
        self._closed = False

    @classmethod
    def connect(
        cls,
        servers: str | Sequence[str],
        *,
        user: str = "",
        password: str = "",
        token: str = "",
        creds: str = "",
        nkey: str = "",
        jwt: str | Callable[[], str] = "",
        seed: str = "",
        sign: Callable[[bytes], bytes] | None = None,
        tls: Tls | None = None,
        name: str = "headrace",
        connect_timeout: float = 5.0,
        request_timeout: float = 5.0,
        reconnect_timeout: float = RECONNECT_SECONDS,
    ) -> Client:
        """Connect to the first server that accepts us. Raises ConnectionFailed, UsageError.

        `servers` is a URL, a comma-separated list, or a list. Credentials in a URL override the others (see
        Credentials). A server that requires TLS gets it; a tls:// URL or `tls` insists on it. A lost
        connection is restored for up to `reconnect_timeout` seconds, wherever that is safe, with what is in
        the files of credentials and certificates by then; this is also how long to wait for a cluster without
        a leader.
        """
        client = cls(
            servers,
            request_timeout=request_timeout,
            credentials=Credentials(user, password, token, creds, nkey, jwt, seed, sign),
            tls=tls,
            name=name,
            connect_timeout=connect_timeout,
            reconnect_timeout=reconnect_timeout,
        )
        with client.connection():
            return client

    def close(self) -> None:
        """Close all connections. A fetch or a publisher in progress fails."""
        self._closed = True
        for connection in self._open:
            connection.finish()
        self._idle.clear()
        self._open.clear()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- connections ----------------------------------------------------------------------------------------

    def borrow(self) -> ServerConnection:
        """An unused connection. Give it back, or drop it."""
        if self._closed:
            raise UsageError("this client is closed")
        if not self._idle:
            connection = ServerConnection(self._servers, **self._options)
            if self._was_connected:
                connection.open_patiently()
            else:
                connection.open()
            self._was_connected = True
            self._open.add(connection)
            return connection
        connection = self._idle.pop()
        try:
            connection.refresh()
        except BaseException:
            self.drop(connection)
            raise
        return connection

    def give_back(self, connection: ServerConnection) -> None:
        if not self._closed:
            self._idle.append(connection)

    def drop(self, connection: ServerConnection) -> None:
        connection.finish()
        self._open.discard(connection)

    @contextmanager
    def connection(self) -> Iterator[ServerConnection]:
        """A connection for exclusive use. Exceptions of the compiled code become ours here."""
        connection = self.borrow()
        try:
            yield connection
        except BadFrame as error:
            self.drop(connection)
            raise protocol_error(error, connection.address) from None
        except ConnectionEnded as error:
            self.drop(connection)
            raise ConnectionFailed(f"lost the connection to {connection.address}: {error}") from None
        except (HeadraceError, GeneratorExit) as error:
            if isinstance(error, ConnectionFailed | ProtocolError):
                self.drop(connection)
            else:
                self.give_back(connection)
            raise
        except BaseException:
            self.drop(connection)  # maybe in the middle of a frame
            raise
        self.give_back(connection)

    # -- requests -------------------------------------------------------------------------------------------

    def request(self, subject: str, payload: bytes = b"", timeout: float | None = None) -> bytes:
        """The payload of the first answer. Raises NoResponders, RequestTimeout, ConnectionFailed."""
        with self.connection() as connection:
            return connection.request(subject, payload, self.request_timeout if timeout is None else timeout)

    def stream_info(self, stream: str) -> StreamInfo:
        """Raises StreamNotFound, and NoResponders when the server has no JetStream."""
        with self.connection() as connection:
            try:
                return self.stream_info_on(connection, stream)
            except ConnectionEnded:
                connection.reconnect()
                return self.stream_info_on(connection, stream)

    def stream_info_on(self, connection: ServerConnection, stream: str) -> StreamInfo:
        payload = connection.request(f"{PREFIX}.STREAM.INFO.{check_name(stream)}", b"", self.request_timeout)
        return stream_info(decode(payload, StreamAnswer, f"stream {stream}"))

    def deleted_sequences(self, stream: str) -> list[int]:
        """Those between the first and the last of a stream that have no message any more, in order."""
        payload = self.request(
            f"{PREFIX}.STREAM.INFO.{check_name(stream)}", encode({"deleted_details": True})
        )
        return sorted(decode(payload, StreamAnswer, f"stream {stream}").state.deleted or [])

    def stream_names(self, subject: str = "") -> list[str]:
        """All streams, or those that store messages of a subject (which may have wildcards), sorted."""
        names: list[str] = []
        while True:
            body: dict[str, Any] = {"offset": len(names)}
            if subject:
                body["subject"] = subject
            answer = decode(self.request(f"{PREFIX}.STREAM.NAMES", encode(body)), StreamNames, "streams")
            names += answer.streams or []
            if not answer.streams or len(names) >= answer.total:
                return sorted(names)

    def seq_at_time(self, stream: str, time_ns: int) -> int:
        """The first sequence that was stored at this time or later; one after the last if there is none."""
        consumer = secrets.token_hex(8)
        config = {
            "name": consumer,
            "deliver_policy": "by_start_time",
            "opt_start_time": format_time(max(time_ns, 0)),
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
        }
        info = self.stream_info(stream)
        if info.messages == 0 or time_ns > info.last_time:
            return info.last_seq + 1
        with self.connection() as connection:
            payload = connection.request(
                f"{PREFIX}.CONSUMER.CREATE.{check_name(stream)}.{consumer}",
                encode({"stream_name": stream, "config": config, "action": "create"}),
                self.request_timeout,
            )
            answer = decode(payload, ConsumerAnswer, f"stream {stream}")
            connection.request_later(f"{PREFIX}.CONSUMER.DELETE.{stream}.{consumer}", b"")
        return answer.delivered.stream_seq + 1

    # -- columns --------------------------------------------------------------------------------------------

    def fetch_range(
        self, stream: str, first: int, last: int, **options: Unpack[RangeOptions]
    ) -> Iterator[pa.RecordBatch]:
        """The messages with first <= seq <= last, in order, as record batches with the schema SCHEMA.

        Deleted messages are left out. Anything else that is missing raises: MessagesMissing if the stream
        does not reach `last`, FetchFailed if messages do not arrive. With `fail_on_loss` it also raises
        MessagesMissing if the head of the stream was removed (by retention or a purge) before it was read.
        `subjects` are filters, wildcards allowed. A lost connection is restored, and the read continues with
        the next sequence. A batch has `batch_rows` rows, 32768 if nothing else is said, or fewer when its
        messages are large. `headers=False` leaves out the headers.
        """
        from headrace.client.arrays import Batches

        wanted = Range(stream, first, last, **options)
        return self._fetch(wanted, Batches(stream, wanted.batch_rows).take)

    def fetch_columns(
        self,
        stream: str,
        first: int,
        last: int,
        take: Callable[[Columns], Batch],
        **options: Unpack[RangeOptions],
    ) -> Iterator[Batch]:
        """As `fetch_range`, with what `take` makes of each batch of columns. Does not need pyarrow."""
        return self._fetch(Range(stream, first, last, **options), take)

    def _fetch(self, wanted: Range, take: Callable[[Columns], Batch]) -> Iterator[Batch]:
        if not 0 < wanted.batch_rows <= 1 << 22:
            raise UsageError(f"a batch has between 1 and {1 << 22} rows, not {wanted.batch_rows}")
        info = self.stream_info(wanted.stream)
        return iter(()) if wanted.is_empty else Fetch(self, info, wanted).batches(take)

    def publisher(
        self, *, stream: str = "", max_in_flight: int = 4096, ack_timeout: float = 10.0
    ) -> Publisher:
        """To publish with acknowledgements. If `stream` is given, they must come from that stream."""
        if not 0 < max_in_flight <= 1 << 20:
            raise UsageError(f"between 1 and {1 << 20} messages can be in flight, not {max_in_flight}")
        if stream:
            self.stream_info(stream)
        return Publisher(self, stream=stream, max_in_flight=max_in_flight, ack_timeout=ack_timeout)

    def publish_many(self, subjects: pa.Array | str, data: pa.Array, headers: pa.Array | None = None) -> None:
        """Publish without acknowledgements; on return the server has seen all of it."""
        with self.connection() as connection:
            publish_plain(connection, subjects, data, headers, timeout=self.request_timeout)


def check_name(stream: str) -> str:
    """A name that can be used in a subject. Raises UsageError."""
    if not stream or any(character <= " " or character in "./\\*>" for character in stream):
        raise UsageError(f"{stream!r} is not a valid stream name: no spaces, dots, slashes or wildcards")
    return stream
