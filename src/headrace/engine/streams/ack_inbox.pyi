from collections.abc import Callable
from typing import Any, final

from headrace.engine.core.hub import Hub
from headrace.engine.core.interest import Interest
from headrace.engine.core.sinks import Sink
from headrace.engine.streams.pending import Pending

Ack = tuple[int, int, int, bytes, bytes]
"""Stream sequence, consumer sequence, deliveries, body, reply."""

@final
class AckInbox(Sink):
    """Settles plain acknowledgements: removes their messages from `pending` and the `others`.

    `begin()`, which is called for the first one in a tick, says whether it may. From the first that says
    something else on, all of this tick are kept, so that they stay in order. At the end of the tick,
    `receive(acks, settled, lowest)` gets what was kept, how many were settled, and the lowest consumer
    sequence of these. A subject of another form is ignored.
    """
    def __init__(
        self,
        hub: Hub,
        interest: Interest,
        receive: Callable[[list[Ack], int, int], None],
        begin: Callable[[], bool],
        pending: Pending,
        others: tuple[dict[int, Any], ...],
    ) -> None: ...
