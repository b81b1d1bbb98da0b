"""The job from start to end: server, pipeline, feed; a kill and a restart in the middle; then everything
settles.

One loop looks at everything four times a second and decides what comes next. Whatever happens, including
Ctrl-C, everything that was started here is stopped.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo.feed import Feed
from examples.demo.live import LiveQuery
from examples.demo.orders import WINDOW_SECONDS, Expected, Plan, Window, expected
from examples.demo.processes import Failure, PipelineProcess, copy_shop
from examples.demo.reconcile import Check, reconcile, revenue_in
from examples.demo.screen import Screen
from examples.demo.watch import Batch, Sample, Watch
from headrace.cli.embedded import embedded_server, watched_server
from headrace.client import Client

LOOK_SECONDS = 0.25
SAMPLE_SECONDS = 1.0
PATIENCE_SECONDS = 120.0
"""How long nothing may change, after the last order, before missing orders count as lost."""

PLAN = "plan.json"
"""In the demo's directory; it also marks the directory as ours."""


@dataclass(frozen=True)
class Settings:
    directory: Path
    seconds: int
    rate: int
    seed: int

    @property
    def kill_second(self) -> float:
        return self.seconds * 0.4

    @property
    def streams(self) -> Path:
        return self.directory / "streams"

    @property
    def shop(self) -> Path:
        return self.directory / "shop"

    @property
    def tables(self) -> Path:
        return self.shop / "data" / "tables"


@dataclass
class Outcome:
    """The result of a run. Times are seconds since 1970."""

    plan: Plan
    samples: list[Sample] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    """Of the table of orders."""
    killed: float = math.nan
    back: float = math.nan
    """When the restarted pipeline had committed its first batch to the table."""
    published_seconds: float = math.nan
    checks: list[Check] = field(default_factory=list)
    revenue: list[tuple[Window, int, int]] = field(default_factory=list)
    """Window, orders and cents, as the table has them."""
    expected: Expected = field(default_factory=lambda: Expected([], [], [], [], {}, 0))

    def second(self, moment: float) -> float:
        """Of the run: since the first order was due."""
        return moment - self.plan.start_ms / 1000


def run(settings: Settings, screen: Screen) -> Outcome:
    """Raises Failure if something does not run; differences are in the outcome."""
    _prepare(settings)
    file = copy_shop(settings.shop)
    with watched_server(str(settings.streams)) as (url, console), Client.connect(url, name="demo") as client:
        screen.say(f"Console: {console}")
        screen.say(f"Server: {url}, streams in {screen.short(settings.streams)}")
        with _Job(settings, screen, file, url, client) as job:
            job.start()
            job.follow()
            job.settle()
        outcome = job.outcome
        screen.say("\nReading streams and tables again, to compare them with what was published ...")
        outcome.checks += reconcile(client, settings.tables, outcome.expected)
        outcome.revenue = list(revenue_in(settings.tables / "revenue"))
    return outcome


def check(settings: Settings) -> list[Check]:
    """Reconcile what an earlier run has left."""
    try:
        plan = Plan.load(settings.directory / PLAN)
    except OSError:
        raise Failure(f"there is no demo in {settings.directory}: `make demo` makes one") from None
    with embedded_server(str(settings.streams)) as url, Client.connect(url, name="demo") as client:
        return reconcile(client, settings.tables, expected(plan))


class _Job:
    """What runs, until the end of its block."""

    def __init__(self, settings: Settings, screen: Screen, file: Path, url: str, client: Client) -> None:
        self._settings = settings
        self._screen = screen
        self._watch = Watch(client, settings.tables)
        self._url = url
        self._log = settings.directory / "pipeline.log"
        self._file = file
        self._pipeline = self._start_pipeline()
        self._feed: Feed | None = None
        self._restarted = math.inf
        self._live: LiveQuery | None = None

    def __enter__(self) -> _Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would leave something running
            self._screen.say("\nStopping ...")
        if self._feed:
            self._feed.stop()
        if self._live:
            self._live.stop()
        self._pipeline.stop()

    def _start_pipeline(self) -> PipelineProcess:
        return PipelineProcess(self._file, self._url, self._log)

    # -- the way there ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Until the pipeline is up and the feed has begun."""
        began = time.monotonic()
        self._screen.say(f"Pipeline: {self._screen.short(self._file)}; Spark takes some seconds to start ...")
        while not self._pipeline.is_ready():
            time.sleep(LOOK_SECONDS)
        settings = self._settings
        # From the start of a window, so that all windows have the same length.
        start = math.ceil(time.time() / WINDOW_SECONDS) * WINDOW_SECONDS
        self.plan = Plan(settings.seed, settings.rate, settings.rate * settings.seconds, start * 1000)
        self.plan.save(settings.directory / PLAN)
        self.outcome = Outcome(self.plan)
        self._screen.say(
            f"It runs after {time.monotonic() - began:.0f} s. "
            f"Feed: {settings.rate:,} orders a second for {settings.seconds} s."
        )
        time.sleep(max(0.0, start - time.time()))
        self._feed = Feed(self._url, self.plan)
        self._feed.start()
        self._screen.head()

    def follow(self) -> None:
        """Until every order is published, the pipeline was killed and is back, and the live view was seen."""
        for sample in self._samples():
            if math.isnan(self.outcome.killed):
                if sample.second >= self._settings.kill_second and sample.landed:
                    self._kill(sample)
            elif math.isnan(self.outcome.back):
                self._look_whether_back(sample)
            elif self._has_seen_live_view() and self._is_published():
                return

    def settle(self) -> None:
        """Until all has arrived where it belongs, or nothing has changed for long."""
        outcome = self.outcome
        outcome.expected = expected(self.plan)
        wanted = self.plan.count, len(outcome.expected.alerts), len(outcome.expected.revenue)
        before, changed = None, time.monotonic()
        for sample in self._samples():
            now = sample.landed, sample.alerts, self._watch.revenue.rows
            if now != before:
                before, changed = now, time.monotonic()
            if now == wanted or time.monotonic() - changed > PATIENCE_SECONDS:
                break
        self._screen.row(outcome.samples[-1])
        outcome.batches = self._watch.orders.batches
        assert self._feed
        assert self._live
        missing = self.plan.count - self._feed.acknowledged
        outcome.checks.append(
            Check(
                "orders published",
                self.plan.count,
                self._feed.acknowledged,
                missing,
                self._feed.duplicates,
                0,
            )
        )
        outcome.checks.append(self._live.check())

    # -- in the middle ------------------------------------------------------------------------------------

    def _samples(self) -> Iterator[Sample]:
        """One per second."""
        assert self._feed
        while True:
            self._check()
            sample = self._watch.sample(self.outcome.second(time.time()), self._feed.acknowledged)
            self._screen.sample(sample)
            self.outcome.samples.append(sample)
            self._is_published()
            yield sample
            next_one = time.monotonic() + SAMPLE_SECONDS
            while time.monotonic() < next_one:
                time.sleep(LOOK_SECONDS)
                self._watch.look()

    def _check(self) -> None:
        assert self._feed
        if self._feed.failure:
            raise Failure(f"the feed failed: {self._feed.failure}")
        self._pipeline.check()

    def _kill(self, sample: Sample) -> None:
        self.outcome.killed = time.time()
        count = self._pipeline.kill()
        meanwhile = "" if self._is_published() else " Orders keep coming."
        self._screen.event(
            sample.second, f"kill -9: the pipeline and its Spark are gone ({count} processes).{meanwhile}"
        )
        self._pipeline = self._start_pipeline()
        self._restarted = time.time()
        self._screen.event(sample.second, "It is started again, with the same command.")

    def _look_whether_back(self, sample: Sample) -> None:
        ready = self._pipeline.is_ready()  # raises when it takes too long
        landed = [batch.at for batch in self._watch.orders.batches if batch.at > self._restarted]
        if landed:
            self.outcome.back = min(landed)
        elif ready and sample.landed >= self.plan.count:
            self.outcome.back = time.time()  # on a slow machine nothing may be left to land
        else:
            return
        down = self.outcome.back - self.outcome.killed
        self._screen.event(
            self.outcome.second(self.outcome.back),
            f"It is back, {down:.0f} s after the kill, and catches up.",
        )

    def _has_seen_live_view(self) -> bool:
        assert self._feed
        if self._live is None:
            self._live = LiveQuery(self._settings.tables, self._url, self._feed.acknowledged)
            return False
        if not self._live.is_over():
            return False
        if not self._live.told:
            self._live.told = True
            self._screen.event(
                self.outcome.second(time.time()),
                f"The live view has {self._live.found:,} orders; when it was asked, "
                f"{self._live.acknowledged:,} were acknowledged.",
            )
        return True

    def _is_published(self) -> bool:
        assert self._feed
        if self._feed.done and math.isnan(self.outcome.published_seconds):
            self.outcome.published_seconds = self.outcome.second(time.time())
        return self._feed.done


def _prepare(settings: Settings) -> None:
    """An empty directory; what an earlier demo has left there goes, nothing else does."""
    directory = settings.directory
    with contextlib.suppress(FileNotFoundError):
        if any(directory.iterdir()) and not (directory / PLAN).exists():
            raise Failure(
                f"{directory} holds something other than a demo: empty it, or choose another --directory"
            )
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / PLAN).write_text("{}")
