"""What a stream keeps, said as plainly as possible: a list of messages, and the rules of nats-server.

- A message goes when it is as old as `max_age`, unless it says that it never expires. Its own TTL does not
  save it.
- A message with a TTL goes when that has passed.
- If it was the last one of its subject and the stream leaves markers, a marker takes its place, which has a
  TTL itself. A marker, or a message with `KV-Operation: PURGE`, leaves none.
- What is too old goes in the order of sequences, then what has outlived its TTL in the order of those times.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.streams.clock_loop import SECOND

NEVER = -1


@dataclass(frozen=True)
class Kept:
    seq: int
    subject: str
    time: int
    ttl: int = 0  # seconds; 0: none
    leaves_marker: bool = True

    @property
    def end(self) -> int:
        return self.time + self.ttl * SECOND


@dataclass
class ExpiryModel:
    """Durations are in seconds; 0: none."""

    max_age: int = 0
    marker_ttl: int = 0
    allow_ttl: bool = False
    max_per_subject: int = -1
    last_seq: int = 0
    kept: list[Kept] = field(default_factory=list)
    markers: int = 0

    def publish(
        self, subject: str, time: int, ttl: int = 0, *, is_kv_purge: bool = False, rollup: str = ""
    ) -> None:
        if 0 < ttl < self.marker_ttl and self.max_per_subject != 1:
            ttl = self.marker_ttl  # else it could end before an earlier marker of its subject
        self.last_seq += 1
        message = Kept(self.last_seq, subject, time, ttl, leaves_marker=not is_kv_purge)
        if rollup:
            self.remove([kept for kept in self.kept if rollup == "all" or kept.subject == subject])
        self.kept.append(message)
        self._limit(subject)

    def configure(self, *, max_age: int, marker_ttl: int, allow_ttl: bool) -> None:
        self.max_age, self.marker_ttl = max_age, marker_ttl
        self.allow_ttl = allow_ttl or marker_ttl > 0 or self.allow_ttl

    def of(self, subject: str) -> list[Kept]:
        return [kept for kept in self.kept if kept.subject == subject]

    def remove(self, gone: list[Kept]) -> None:
        self.kept = [kept for kept in self.kept if kept not in gone]

    def expire(self, now: int) -> None:
        if self.max_age:
            for kept in [kept for kept in self.kept if kept.time <= now - self.max_age * SECOND]:
                if not (kept.ttl == NEVER and self.allow_ttl):
                    self._expire(kept, now)
        if self.allow_ttl:
            ended = [kept for kept in self.kept if kept.ttl > 0 and kept.end <= now]
            for kept in sorted(ended, key=lambda kept: (kept.end, kept.seq)):
                self._expire(kept, now)

    def _expire(self, kept: Kept, now: int) -> None:
        was_last = self.of(kept.subject) == [kept]
        self.remove([kept])
        if was_last and self.marker_ttl and kept.leaves_marker:
            self.last_seq += 1
            self.markers += 1
            self.kept.append(Kept(self.last_seq, kept.subject, now, self.marker_ttl, leaves_marker=False))

    def _limit(self, subject: str) -> None:
        if self.max_per_subject > 0:
            self.remove(self.of(subject)[: -self.max_per_subject])
