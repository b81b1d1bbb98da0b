"""Sets a consumer to where it begins, or was when the server stopped."""

from __future__ import annotations

from headrace.streams.consumers.core import Core
from headrace.streams.consumers.start import find_start
from headrace.streams.consumers.state import ConsumerState, reconcile, restore


def place(core: Core, state: ConsumerState | None, max_msgs_per_subject: int) -> list[int]:
    """Set cursor and ledger; no state means a new consumer. Returns the sequences to deliver first."""
    if state is None:
        start, start_list = find_start(core.config, core.log, max_msgs_per_subject)
        core.cursor.next_seq = start
        core.ledger.start(start_list[0] - 1 if start_list else start - 1)
        return start_list
    log, ahead = core.log, state.delivered_stream
    if reconcile(state, log.last_seq):
        core.warn(
            f"JetStream consumer '{core.account} > {core.stream} > {core.name}' delivered sequence {ahead} "
            f"past last stream sequence of {log.last_seq}"
        )
    restore(core.ledger, state)
    core.ledger.drop_below(log.first_seq)
    core.cursor.next_seq = max(core.ledger.delivered_stream + 1, log.first_seq, 1)
    core.cursor.delivered_seq = core.ledger.delivered_consumer
    return []
