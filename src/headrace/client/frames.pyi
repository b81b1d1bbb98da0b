from typing import Literal, final

from headrace.client.tls import TlsChannel

Kind = Literal["MSG", "HMSG", "PING", "PONG", "+OK", "-ERR", "INFO"]

class BadFrame(ValueError): ...
class ConnectionEnded(ConnectionError): ...

@final
class Event:
    kind: Kind
    sid: int
    subject: bytes
    reply: bytes
    headers: bytes
    payload: bytes

class Frames:
    def __init__(self, payload_max: int = ...) -> None: ...
    def attach(self, descriptor: int, channel: TlsChannel | None = None) -> None: ...
    def feed(self, data: bytes | bytearray | memoryview) -> None: ...
    def next(self, timeout: float) -> Event | None: ...
