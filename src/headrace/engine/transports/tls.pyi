import ssl
from typing import final

from headrace.engine.core.transport import Transport

@final
class TlsBuffers: ...

@final
class TlsTransport(Transport):
    session: ssl.SSLObject | None
    def __init__(
        self,
        fd: int,
        context: ssl.SSLContext,
        buffers: TlsBuffers,
        *,
        server_side: bool = True,
        server_hostname: str | None = None,
    ) -> None: ...
    @property
    def wants_write(self) -> bool: ...
    def shake_hands(self) -> bool: ...
