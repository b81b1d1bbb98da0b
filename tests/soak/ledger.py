"""What must be in a stream, what must not, and what nobody can know.

An entry is made before a message is sent and has three things that can be uncertain:

    sequence   0 until an acknowledgement or a reader has told it: the message may be stored or not
    removable  something was asked for that may have removed it: a delete, a purge or an acknowledgement of a
               work queue that was not answered (yet), or that was under way when the message was sent
    expiry     between `kept_until` and `gone_by` it may be there or not

A removal that was answered takes its entries out of the ledger. So whatever is stored without an entry has
come back. A check settles what it sees: found means stored, for good; not found, though it could have been,
means gone, for good. "Not found" of a publish without an answer is final only in a later life of the server:
until then it may still be under way.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.soak.findings import Findings
from tests.soak.messages import ID_HEADER, Stored, header, identity_of


@dataclass(slots=True)
class Entry:
    subject: str
    life: int
    """The server's, when it was sent last."""
    place: int
    """How many were sent to its subject before it."""
    seq: int = 0
    removable: bool = False
    removable_life: int = 0
    kept_until: float = math.inf
    gone_by: float = math.inf
    lifetime: float = math.inf
    headed: bool = False
    with_id: bool = False
    """Has a Nats-Msg-Id: may be sent again."""
    batch: str = ""
    sent: int = 0
    certain: bool = False
    """It is stored, though nobody has said as which sequence: behind `after`."""
    after: int = 0


@dataclass
class Limits:
    messages: int = 0
    per_subject: int = 0
    expiry_grace: float = 20.0
    """How late the server may be in removing what has expired."""


class Ledger:
    """Of one stream. `findings` gets what is wrong."""

    def __init__(self, stream: str, findings: Findings, limits: Limits | None = None) -> None:
        self.stream = stream
        self.entries: dict[str, Entry] = {}
        self.acknowledged = self.checked = 0
        self.highest = 0
        self._findings = findings
        self._limits = limits or Limits()
        self._by_seq: dict[int, str] = {}
        self._sent_to: Counter[str] = Counter()
        self._under_way: list[Callable[[str], bool]] = []
        self._open_in = -1
        self._found: set[str] = set()

    # -- publishing -----------------------------------------------------------------------------------------

    def send(
        self,
        identity: str,
        subject: str,
        life: int,
        *,
        now: float = 0.0,
        lifetime: float = math.inf,
        headed: bool = False,
        with_id: bool = False,
        batch: str = "",
    ) -> None:
        """It is about to be sent, for the first time or again."""
        entry = self.entries.get(identity)
        if entry is None:
            self._sent_to[subject] += 1
            entry = Entry(subject, life, self._sent_to[subject], headed=headed, with_id=with_id, batch=batch)
            entry.after = self.highest
            entry.lifetime, entry.kept_until = lifetime, now + lifetime
            self.entries[identity] = entry
        entry.life = life
        entry.sent += 1
        if any(concerns(subject) for concerns in self._under_way):
            self._mark(entry, life)

    def acknowledge(self, identity: str, seq: int, now: float = 0.0) -> None:
        self.acknowledged += 1
        entry = self.entries.get(identity)
        if entry is None:  # removed before its acknowledgement was seen
            return
        if entry.seq and entry.seq != seq:
            self._find("doubled", f"{identity} is acknowledged as {seq} and was {entry.seq}")
        other = self._by_seq.get(seq)
        if other is not None and other != identity:
            self._find("doubled", f"sequence {seq} was given to {other} and to {identity}")
        self._settle(identity, entry, seq)
        entry.gone_by = now + entry.lifetime + self._limits.expiry_grace

    def acknowledge_somewhere(self, identity: str) -> None:
        """By a client that does not tell the sequence: a check has to find it."""
        self.acknowledged += 1
        if identity in self.entries:
            self.entries[identity].certain = True

    def refuse(self, identity: str) -> None:
        """An error was answered that says it is not stored. An earlier attempt may have been, though."""
        entry = self.entries.get(identity)
        if entry is not None and entry.sent == 1 and not entry.seq:
            del self.entries[identity]

    def unsettled(self) -> Iterator[str]:
        """Sent, and nobody knows what became of them."""
        return (one for one, entry in self.entries.items() if not entry.seq and not entry.certain)

    def is_certain(self) -> bool:
        """It is known of each message whether it is stored; but for what a limit has taken."""
        return all(entry.seq and not entry.removable for entry in self.entries.values())

    # -- removing -------------------------------------------------------------------------------------------

    @contextmanager
    def removal(self, concerns: Callable[[str], bool], life: int) -> Iterator[None]:
        """While something is under way that may take what is sent meanwhile, by subject.

        An exception means that it had no answer: it may still be under way afterwards.
        """
        self._under_way.append(concerns)
        try:
            yield
        except BaseException:
            self.leave_open(life)
            raise
        finally:
            self._under_way.remove(concerns)

    def leave_open(self, life: int) -> None:
        """Something that removes was not answered in this life."""
        self._open_in = life

    def may_go(self, identities: Iterable[str], life: int) -> None:
        for identity in identities:
            if identity in self.entries:
                self._mark(self.entries[identity], life)

    def has_gone(self, identities: Iterable[str]) -> None:
        """The server says so. They must never be seen again."""
        for identity in list(identities):
            self._drop(identity)

    def matching(self, concerns: Callable[[str], bool], *, settled: bool) -> list[str]:
        """Those on these subjects, by sequence if that is known of them."""
        found = [
            (entry.seq, identity)
            for identity, entry in self.entries.items()
            if bool(entry.seq) == settled and concerns(entry.subject)
        ]
        return [identity for _, identity in sorted(found)]

    # -- checking -------------------------------------------------------------------------------------------

    def check(
        self, stored: Iterable[Stored], last_seq: int, life: int, began: float, ended: float
    ) -> dict[int, str]:
        """Compare with what was read back between two times. What is stored, by sequence."""
        present: dict[int, str] = {}
        wrong: set[int] = set()
        per_subject: Counter[str] = Counter()
        before = 0
        for message in stored:
            if message.seq <= before:
                self._find("doubled", f"sequence {message.seq} was read after {before}")
            before = message.seq
            per_subject[message.subject] += 1
            identity = self._recognise(message)
            if identity is None:
                wrong.add(message.seq)
            else:
                present[message.seq] = identity
        self._check_limits(len(present), per_subject)
        self._check_present(present, life, began)
        self._check_missing(present, wrong, last_seq, life, ended)
        if last_seq < self.highest:
            self._find("lost", f"the stream ends at {last_seq}, and {self.highest} was acknowledged")
        return present

    def recognise_delivery(self, message: Stored) -> str | None:
        """Which message was delivered. A finding if it is not one, or not the one of its sequence."""
        identity = self._recognise(message, may_be_gone=True)
        known = self._by_seq.get(message.seq)
        if identity is not None and known is not None and known != identity:
            self._find("altered", f"sequence {message.seq} was delivered as {identity} and is {known}")
        return identity

    def _recognise(self, message: Stored, *, may_be_gone: bool = False) -> str | None:
        identity = identity_of(self.stream, message.headers, message.payload)
        if identity is None:
            self._find("altered", f"sequence {message.seq}: {message.payload[:60]!r}")
            return None
        entry = self.entries.get(identity)
        if entry is None:
            if not may_be_gone:
                self._find("resurrected", f"{identity} is back, as sequence {message.seq}")
            return identity if may_be_gone else None
        if entry.subject != message.subject:
            self._find("altered", f"{identity} was sent to {entry.subject} and is on {message.subject}")
        if entry.headed and header(message.headers, ID_HEADER) != identity:
            self._find("altered", f"{identity} has lost its headers: {message.headers[:60]!r}")
        return identity

    def _check_limits(self, count: int, per_subject: Counter[str]) -> None:
        if self._limits.messages and count > self._limits.messages:
            self._find("resurrected", f"{count} messages are stored, {self._limits.messages} are the limit")
        for subject, found in per_subject.items():
            if self._limits.per_subject and found > self._limits.per_subject:
                self._find("resurrected", f"{found} messages of {subject} are above its limit")

    def _check_present(self, present: dict[int, str], life: int, now: float) -> None:
        for seq, identity in present.items():
            entry = self.entries.get(identity)
            self.checked += 1
            if entry is None:
                continue
            if entry.seq and entry.seq != seq:
                self._find("doubled", f"{identity} is stored as {entry.seq} and as {seq}")
            elif now > entry.gone_by:
                self._find("resurrected", f"{identity} ({seq}) expired {now - entry.gone_by:.0f} s ago")
                entry.gone_by = math.inf
            if not entry.seq:
                self._settle(identity, entry, seq)
                entry.gone_by = now + entry.lifetime + self._limits.expiry_grace
            if entry.removable and (life > entry.removable_life or life != self._open_in):
                entry.removable = False

    def _check_missing(
        self, present: dict[int, str], wrong: set[int], last_seq: int, life: int, now: float
    ) -> None:
        there = set(present.values())
        batches: defaultdict[str, list[str]] = defaultdict(list)
        for identity, entry in list(self.entries.items()):
            if identity in there:
                continue
            if not entry.seq and not entry.certain:
                if life > entry.life:
                    if entry.batch:
                        batches[entry.batch].append(identity)
                    self._drop(identity)
                continue
            self._drop(identity)
            if not self._excused(entry, last_seq, now) and entry.seq not in wrong:
                self._find("lost", f"{identity}, sequence {entry.seq} on {entry.subject}")
        torn = {self.entries[identity].batch for identity in there if identity in self.entries} & set(batches)
        for batch in torn:
            self._find("torn", f"batch {batch} is stored without {batches[batch][:5]}")

    def _excused(self, entry: Entry, last_seq: int, now: float) -> bool:
        limits = self._limits
        return (
            entry.removable
            or now >= entry.kept_until
            or bool(limits.messages and last_seq - (entry.seq or entry.after) >= limits.messages)
            or bool(limits.per_subject and self._sent_to[entry.subject] - entry.place >= limits.per_subject)
        )

    def _settle(self, identity: str, entry: Entry, seq: int) -> None:
        entry.seq = seq
        self._by_seq[seq] = identity
        self.highest = max(self.highest, seq)

    def _mark(self, entry: Entry, life: int) -> None:
        entry.removable, entry.removable_life = True, life

    def _drop(self, identity: str) -> None:
        entry = self.entries.pop(identity, None)
        if entry is not None:
            self._by_seq.pop(entry.seq, None)

    def _find(self, kind: str, text: str) -> None:
        """Once: what is wrong stays wrong in the next check."""
        if text not in self._found:
            self._found.add(text)
            self._findings.add(kind, f"{self.stream}: {text}")
