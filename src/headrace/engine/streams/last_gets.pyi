from collections.abc import Callable
from typing import final

from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.core.sinks import InboxMessage, Sink
from headrace.engine.store.log import Log

@final
class LastGets(Sink):
    """Answers requests to `$JS.API.DIRECT.GET.<stream>.<subject>`, to which it has to be subscribed.

    Those that are more than a reply subject and a literal subject go to `receive`, at the end of the tick.
    If the log cannot be read, `on_failure(reply, error)` answers.
    """

    def __init__(
        self,
        hub: Hub,
        interest: Interest,
        log: Log,
        stream: bytes,
        receive: Callable[[list[InboxMessage]], None],
        on_failure: Callable[[bytes, OSError], None],
    ) -> None: ...
