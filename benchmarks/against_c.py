"""Is our load generator the limit? `python -m benchmarks.against_c [--rounds 15]`

The same runs from headrace, once with `plain.c` (raw sockets, a single epoll loop, it counts bytes and parses
nothing) and once with our generator, in alternating rounds, both pinned to the same core, the server to
another. If ours gets at least as many messages per second, a leaner generator would not get more. The ratio
is the median of the rounds' ratios, because consecutive runs have the same conditions. The CPU time per
delivery is shown, too: on a busy machine it is the more stable figure.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.bench.failure import BenchError
from headrace.bench.figures import summarize
from headrace.bench.servers import Process, find_server, running
from headrace.bench.workloads import PublishSubscribe

RUN_SECONDS_MAX = 120
SHAPES = {
    "1 → 10, 128 B": PublishSubscribe(1, 10, 128, 1_000_000),
    "10 → 10, 128 B": PublishSubscribe(10, 10, 128, 1_000_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Our generator compared with a plain C program.")
    parser.add_argument("--rounds", type=int, default=15, help="runs of each (15)")
    parser.add_argument("--messages", type=int, help="of each run (1,000,000)")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-plain-") as folder:
            program = build(Path(folder))
            print("deliveries per second (lowest to highest), CPU time of the generator per delivery")
            print(f"{'':<16}{'plain C':>36}{'our generator':>36}{'ratio':>24}")
            for name, workload in SHAPES.items():
                messages = options.messages or workload.messages
                show(name, program, workload.scaled(messages / workload.messages), options.rounds)
    except BenchError as error:
        print(f"against_c: {error}", file=sys.stderr)
        return 1
    return 0


def build(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("there is no C compiler (cc)")
    program = folder / "plain"
    source = Path(__file__).with_name("plain.c")
    outcome = subprocess.run(
        [compiler, "-O2", "-Wall", "-o", str(program), str(source)], capture_output=True, text=True
    )
    if outcome.returncode:
        raise BenchError(f"plain.c does not compile: {outcome.stderr.strip().splitlines()[0]}")
    return program


def show(name: str, program: Path, workload: PublishSubscribe, rounds: int) -> None:
    rates: dict[str, list[float]] = {"plain": [], "ours": []}
    costs: dict[str, list[float]] = {"plain": [], "ours": []}
    for number in range(rounds):
        for kind in ("plain", "ours") if number % 2 == 0 else ("ours", "plain"):
            with running(find_server("headrace")) as process:
                pin_server(process)
                run = run_plain if kind == "plain" else run_ours
                deliveries, seconds, cpu_seconds = run(program, workload, process)
                rates[kind].append(deliveries / seconds)
                costs[kind].append(cpu_seconds / deliveries)
    cells = []
    for kind, values in rates.items():
        rate, cost = summarize(values), summarize(costs[kind])
        spread = f"{rate.lowest / 1e6:.2f} to {rate.highest / 1e6:.2f}"
        cells.append(f"{rate.median / 1e6:.2f} M ({spread}), {cost.median * 1e9:.0f} ns")
    ratio = summarize([ours / plain for ours, plain in zip(rates["ours"], rates["plain"], strict=True)])
    spread = f"{ratio.median:.2f} ({ratio.lowest:.2f} to {ratio.highest:.2f})"
    print(f"{name:<16}{cells[0]:>36}{cells[1]:>36}{spread:>24}", flush=True)


def pin_server(process: Process) -> None:
    """Pin it to the first core; both generators run on the last."""
    if process.pid is not None:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})


def run_ours(program: Path, workload: PublishSubscribe, process: Process) -> tuple[int, float, float]:
    """Deliveries, seconds, and CPU seconds of the generator."""
    sample = workload.run(process.address, process.rss_bytes)
    deliveries = workload.messages * workload.subscribers
    return deliveries, sample.seconds, sample.seconds * sample.generator_cpu_share


def run_plain(program: Path, workload: PublishSubscribe, process: Process) -> tuple[int, float, float]:
    core = max(os.sched_getaffinity(0))
    shape = (workload.publishers, workload.subscribers, workload.messages, workload.size)
    before = children_cpu_seconds()
    outcome = subprocess.run(
        [str(program), str(process.address.port), *map(str, shape)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    if outcome.returncode:
        raise BenchError(outcome.stderr.strip())
    deliveries, seconds = outcome.stdout.split()
    return int(deliveries), float(seconds), children_cpu_seconds() - before


def children_cpu_seconds() -> float:
    """Of those that have ended: the server has not."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
