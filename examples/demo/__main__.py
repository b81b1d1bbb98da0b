"""The command line of the demo: `make demo`, or `python -m examples.demo --seconds 20`.

Exit codes: 0 everything adds up; 1 it does not, or something did not run; 130 interrupted.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from examples.demo import job, summary
from examples.demo.page import write_page
from examples.demo.processes import Failure
from examples.demo.reconcile import Check
from examples.demo.screen import Screen, fail
from headrace.bench.report.tables import Table
from headrace.errors import HeadraceError

PAGE = "report.html"
INTERRUPTED = 130


def main() -> int:
    settings, only_check = _arguments()
    screen = Screen()
    for number in signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, signal.getsignal(signal.SIGINT))
    began = time.monotonic()
    try:
        if only_check:
            return _verdict(screen, job.check(settings))
        outcome = job.run(settings, screen)
        found = summary.Latencies(outcome)
        page = settings.directory / PAGE
        write_page(outcome, found, page)
    except (Failure, HeadraceError) as failure:
        fail(str(failure))
        return 1
    except KeyboardInterrupt:
        screen.say("Stopped, with everything that was started.")
        return INTERRUPTED
    screen.say("")
    for sentence in summary.throughput(outcome):
        screen.say(sentence)
    screen.say("")
    _show(screen, found.table())
    screen.say("")
    code = _verdict(screen, outcome.checks)
    screen.say(f"\nIt took {time.monotonic() - began:.0f} s. Charts: {screen.short(page)}, in any browser.")
    _try_next(screen, settings)
    return code


def _verdict(screen: Screen, checks: list[Check]) -> int:
    _show(screen, summary.reconciliation(checks))
    if summary.adds_up(checks):
        screen.say(f"\n{summary.verdict(checks)}")
        return 0
    fail(summary.verdict(checks))
    return 1


def _show(screen: Screen, table: Table) -> None:
    screen.table(table.head, table.rows)


def _try_next(screen: Screen, settings: job.Settings) -> None:
    command = screen.short(Path(sys.executable).parent / "headrace")
    tables = screen.short(settings.tables)
    screen.say(
        "Try next:\n"
        f"  {command} serve --store {screen.short(settings.streams)}     and in another terminal\n"
        f'  {command} sql "SELECT string(data) FROM ALERTS ORDER BY seq DESC LIMIT 5"\n'
        f"  {command} sql --tables {tables} 'SELECT country, sum(revenue) FROM revenue GROUP BY country'\n"
        f"  {command} sql --tables {tables} 'DESCRIBE HISTORY orders'\n"
        "  examples/shop/shop.yml: the pipeline. docs/spark.md: what else it can do."
    )


def _arguments() -> tuple[job.Settings, bool]:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="Runs the demo.")
    parser.add_argument("--seconds", type=_positive, default=60, help="of the feed (default 60)")
    parser.add_argument("--rate", type=_positive, default=5000, help="orders per second (default 5000)")
    parser.add_argument("--seed", type=int, default=7, help="that all orders follow from (default 7)")
    parser.add_argument("--directory", type=Path, default=Path("build/demo"), help="(default build/demo)")
    parser.add_argument("--check", action="store_true", help="only reconcile what the last run has left")
    given = parser.parse_args()
    return job.Settings(given.directory.absolute(), given.seconds, given.rate, given.seed), given.check


def _positive(text: str) -> int:
    value = int(text)
    if value <= 0:
        raise ValueError
    return value


if __name__ == "__main__":
    sys.exit(main())
