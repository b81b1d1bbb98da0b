"""`python -m tests.soak`: runs a soak and writes its page. The exit code is 1 if anything was wrong."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path

from tests.soak.faults import FAULTS, NOT_BY_DEFAULT
from tests.soak.page import summary_lines, write_page
from tests.soak.record import Record
from tests.soak.supervisor import Plan, Soak

NICENESS = 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default 5)")
    parser.add_argument("--seed", type=int, help="of all random decisions (default: another each time)")
    parser.add_argument("--rate", type=float, default=1.0, help="how busy the clients are (default 1)")
    parser.add_argument("--page", type=Path, default=Path("build/soak/report.html"), help="the report")
    parser.add_argument("--faults", help=f"only these: a comma-separated list of: {', '.join(FAULTS)}")
    parser.add_argument("--work", type=float, default=12.0, help="most seconds of work around a fault")
    return parser.parse_args()


async def run(plan: Plan, log: Path) -> Record:
    soak = Soak(plan, lambda line: print(line, flush=True))
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, soak.stop)
    try:
        return await soak.run()
    finally:
        print(soak.progress_line(), flush=True)
        if soak.server.log.exists():
            log.write_bytes(soak.server.log.read_bytes())


def main() -> int:
    wanted = arguments()
    seed = secrets.randbelow(1 << 31) if wanted.seed is None else wanted.seed
    faults = wanted.faults.split(",") if wanted.faults else list(FAULTS)
    unknown = set(faults) - {*FAULTS, *NOT_BY_DEFAULT}
    if unknown:
        sys.exit(f"no such fault: {', '.join(sorted(unknown))}; there are: {', '.join(FAULTS)}")
    os.nice(NICENESS)
    wanted.page.parent.mkdir(parents=True, exist_ok=True)
    print(f"Soak of {wanted.minutes:g} minutes, seed {seed}; Ctrl-C stops it with a report", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as directory:
        work = (wanted.work / 4, wanted.work)
        plan = Plan(wanted.minutes * 60, seed, wanted.rate, Path(directory, "run"), work, tuple(faults))
        record = asyncio.run(run(plan, wanted.page.with_name("server.log")))
    write_page(record, wanted.page)
    print("\n".join(summary_lines(record)))
    print(f"Report: {wanted.page}")
    return 1 if record.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
