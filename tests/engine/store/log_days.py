"""A day in the life of a log, written so that any call in it may fail, and what its owner may believe then.

Each step does one thing and waits until it is on disk. If it was confirmed, it must hold for ever; if it was
not, or raised, it may have happened or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.engine.basics.filters import Filter
from headrace.engine.store.log import Log
from tests.engine.store.logs import messages, settle

Message = tuple[bytes, bytes, bytes]

SEGMENT = 4096
SUBJECTS = 5
HEADERS = b"NATS/1.0\r\nkey: value\r\n\r\n"


class Belief:
    """What is known of the messages of a log, by sequence."""

    def __init__(self) -> None:
        self.sure: dict[int, Message] = {}  # acknowledged, and not removed: it is there
        self.gone: set[int] = set()  # its removal was confirmed: it never comes back
        self.maybe: dict[int, list[Message]] = {}  # what a step without a confirmation wrote or removed
        self.acknowledged: set[int] = set()  # ever: only these sequences are not given to another message

    def acknowledge(self, seq: int, message: Message) -> None:
        self.sure[seq] = message
        self.maybe.pop(seq, None)
        self.acknowledged.add(seq)

    def doubt(self, seqs: Iterable[int]) -> None:
        """These are about to be removed: whether they are is not known."""
        for seq in seqs:
            if seq in self.sure:
                self.maybe.setdefault(seq, []).append(self.sure.pop(seq))

    def confirm_removed(self, seqs: Iterable[int]) -> None:
        for seq in seqs:
            self.maybe.pop(seq, None)
            if seq in self.acknowledged:
                self.gone.add(seq)

    def check(self, found: dict[int, Message]) -> None:
        missing = [seq for seq, message in self.sure.items() if seq not in found]
        assert not missing, f"{len(missing)} acknowledged messages are missing, among them {missing[:5]}"
        back = self.gone & found.keys()
        assert not back, f"removed messages are back: {sorted(back)[:5]}"
        for seq, message in found.items():
            allowed = [self.sure[seq]] if seq in self.sure else self.maybe.get(seq, [])
            assert message in allowed, f"message {seq} is altered, or was never published"

    def adopt(self, found: dict[int, Message]) -> None:
        """What is there was confirmed, and so was what is not."""
        self.check(found)
        self.gone.update((self.maybe.keys() - found.keys()) & self.acknowledged)
        self.sure = dict(found)
        self.acknowledged.update(found)
        self.maybe = {}


class Day:
    """The owner of one log. `failures` says what its steps met."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.log: Log | None = None
        self.belief = Belief()
        self.failures: list[str] = []
        self.published = 0
        self.settings: dict[str, int | str] = {}

    # -- steps --------------------------------------------------------------------------------------------

    def live(self) -> None:
        self.publish(40)
        self.remove([7, 8, 20])
        self.remove([9], erase=True)
        self.look()
        self.publish(20)
        self.remove_matching(b"subject.3", 30)
        self.reopen()
        self.compact(25)
        self.publish(20)
        self.look()
        self.configure(max_msgs_per_subject=4)
        self.publish(45)
        self.look()
        self.configure(max_msgs_per_subject=-1, compression="s2")
        self.publish(60)
        self.look()
        self.remove([self.last_seq - 50, self.last_seq - 20], erase=True)
        self.remove_matching(b"subject.1", 5)
        self.reopen()
        self.publish(10)
        self.look()
        self.configure(max_msgs=30)
        self.purge()
        self.publish(8)
        self.reopen()
        self.look()

    @property
    def last_seq(self) -> int:
        return max([*self.belief.sure, *self.belief.maybe, 100])

    def step(self, act: Callable[[Log], object]) -> bool:
        """Do something and wait for it. Whether it was confirmed."""
        try:
            log = self.open()
            act(log)
            failure = settle(log, None)
        except (OSError, MemoryError) as error:
            failure = str(error) or type(error).__name__
        if failure is not None:
            self.failures.append(failure)
        return failure is None

    def open(self) -> Log:
        if self.log is None:
            log = Log(self.directory, segment_bytes=SEGMENT)
            log.recover()
            self.log = log
            log.configure(**self.settings)  # type: ignore[arg-type]
        return self.log

    def publish(self, count: int) -> None:
        for _ in range(count // 5):
            group: dict[int, Message] = {}
            if self.step(lambda log, group=group: self._append(log, group)):  # type: ignore[misc]
                for seq, message in group.items():
                    self.belief.acknowledge(seq, message)
            else:
                for seq, message in group.items():
                    self.belief.maybe.setdefault(seq, []).append(message)

    def _append(self, log: Log, group: dict[int, Message]) -> None:
        for _ in range(5):
            self.published += 1
            number = self.published
            subject = b"subject.%d" % (number * 7919 % SUBJECTS)
            payload = b"message %d " % number * (1 + number * 7919 % 23)
            message = (subject, HEADERS if number % 3 == 0 else b"", payload)
            try:
                group[log.append(*message)] = message
            finally:
                self._doubt_what_limits_remove({*group, log.last_seq + 1})

    def _doubt_what_limits_remove(self, new: set[int]) -> None:
        """All that may be there counts, and each of the new ones as one of every subject."""
        known = sorted({*self.belief.sure, *self.belief.maybe, *new})
        most = self.settings.get("max_msgs", -1)
        if isinstance(most, int) and most > 0:
            self.belief.doubt(known[:-most])
        most = self.settings.get("max_msgs_per_subject", -1)
        if isinstance(most, int) and most > 0:
            for number in range(SUBJECTS):
                self.belief.doubt([seq for seq in known if self._may_be(seq, b"subject.%d" % number)][:-most])

    def _may_be(self, seq: int, subject: bytes) -> bool:
        if seq in self.belief.sure:
            return self.belief.sure[seq][0] == subject
        return any(message[0] == subject for message in self.belief.maybe.get(seq, [(subject, b"", b"")]))

    def remove(self, seqs: list[int], *, erase: bool = False) -> None:
        self.belief.doubt(seqs)
        if self.step(lambda log: [log.remove(seq, erase=erase) for seq in seqs]):
            self.belief.confirm_removed(seqs)

    def remove_matching(self, subject: bytes, most: int) -> None:
        doubtful = [seq for seq, message in self.belief.sure.items() if message[0] == subject]
        self.belief.doubt(doubtful)
        self.step(lambda log: log.remove_matching(0, log.last_seq, Filter((subject,)), most, 1 << 62))

    def compact(self, first_seq: int) -> None:
        below = [seq for seq in self.belief.sure if seq < first_seq]
        self.belief.doubt(below)
        if self.step(lambda log: log.compact(first_seq)):
            self.belief.confirm_removed(below)

    def purge(self) -> None:
        everything = list(self.belief.sure)
        self.belief.doubt(everything)
        if self.step(lambda log: log.purge()):
            self.belief.confirm_removed(everything)

    def configure(self, **settings: int | str) -> None:
        self.settings = {**self.settings, **settings}
        self._doubt_what_limits_remove(set())
        self.step(lambda log: log.configure(**self.settings))  # type: ignore[arg-type]

    def look(self) -> None:
        """Read everything. What was confirmed until then is settled.

        First of all what earlier steps left pending: otherwise it would be written after it was looked for.
        """
        found: dict[int, Message] = {}
        if self.step(lambda log: None) and self.step(lambda log: found.update(messages(log))):
            self.belief.adopt(found)

    def reopen(self) -> None:
        log, self.log = self.log, None
        try:
            if log is not None:
                log.close()
        except (OSError, MemoryError) as error:
            self.failures.append(str(error))
        self.step(lambda log: None)

    # -- afterwards ---------------------------------------------------------------------------------------

    def end(self) -> str:
        """Nothing fails any more: it works again, at the latest after a restart, and all is there."""
        failures, self.failures = self.failures, []
        self.publish(5)
        outcome = "nobody noticed" if not failures else "failed, went on"
        if self.failures:
            outcome = "needed a restart"
            assert self.log is None or self.log.failure, "it does not say why it fails"
        self.look()
        for _ in range(2):
            self.failures = []
            self.reopen()
            assert self.log is not None, self.failures
            assert self.log.damages == [] or all("torn" in line for line in self.log.damages)
            self.look()
            self.publish(5)
            assert self.failures == []
        self.log.close()
        return outcome
