from collections.abc import Callable
from typing import final

from headrace.engine.core.transport import Transport

@final
class WebSocketTransport(Transport):
    def __init__(
        self,
        inner: Transport,
        *,
        on_failure: Callable[[str], None],
        max_payload: int,
        masks: bool = True,
        deflates: bool = False,
        frame_limit: int = 0,
        splits_deflated: bool = True,
    ) -> None: ...
