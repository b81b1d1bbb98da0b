"""Steps that the sessions about publishing share."""

from __future__ import annotations

from typing import Any

from tests.interop.jetstream import api, create, publish
from tests.interop.session import Step


def stored(seq: int, stream: str = "S") -> Step:
    """Look at a stored message: its subject, headers and payload."""
    return api(f"STREAM.MSG.GET.{stream}", {"seq": seq})


def s(**config: Any) -> Step:
    return create("S", **{"subjects": ["s.>"], **config})


def batch(seq: int, subject: str = "s.a", batch_id: str = "b", **values: Any) -> Step:
    """One message of an atomic batch."""
    return publish(subject, b"%d" % seq, Nats_Batch_Id=batch_id, Nats_Batch_Sequence=seq, **values)
