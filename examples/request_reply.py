"""A service that answers requests, and what happens when there is none.

Run a server (`headrace serve`), then this script:

    python examples/request_reply.py [nats://127.0.0.1:4222]
"""

import asyncio
import json
import sys

import nats
from nats.aio.msg import Msg
from nats.errors import NoRespondersError


async def add(message: Msg) -> None:
    numbers = json.loads(message.data)
    await message.respond(json.dumps(sum(numbers)).encode())


async def main(url: str) -> None:
    client = await nats.connect(url)
    await client.subscribe("math.add", cb=add)
    answer = await client.request("math.add", b"[1, 2, 3]", timeout=5)
    print(f"1 + 2 + 3 = {answer.data.decode()}")
    try:
        await client.request("math.divide", b"[1, 0]", timeout=5)
    except NoRespondersError:
        print("math.divide: nobody answers, and the server says so at once")
    await client.drain()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
