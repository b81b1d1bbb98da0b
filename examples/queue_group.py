"""Three workers share jobs: each job goes to one of them.

Run a server (`headrace serve`), then this script:

    python examples/queue_group.py [nats://127.0.0.1:4222]
"""

import asyncio
import sys
from collections import Counter

import nats
from nats.aio.msg import Msg

JOBS = 300


async def main(url: str) -> None:
    client = await nats.connect(url)
    done_by: Counter[str] = Counter()
    all_done = asyncio.Event()

    async def start_worker(name: str) -> None:
        async def on_job(message: Msg) -> None:
            done_by[name] += 1
            if done_by.total() == JOBS:
                all_done.set()

        await client.subscribe("jobs.*", queue="workers", cb=on_job)

    await asyncio.gather(*map(start_worker, ("anna", "bob", "carla")))
    for number in range(JOBS):
        await client.publish(f"jobs.{number}", b"work", headers={"Priority": "low"})
    await asyncio.wait_for(all_done.wait(), timeout=10)
    shares = ", ".join(f"{name} did {count}" for name, count in sorted(done_by.items()))
    print(f"{JOBS} jobs: {shares}")
    await client.drain()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
