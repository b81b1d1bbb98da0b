"""Publish and subscribe, with a wildcard.

Run a server (`headrace serve`), then this script:

    python examples/publish_subscribe.py [nats://127.0.0.1:4222]
"""

import asyncio
import sys

import nats
from nats.aio.msg import Msg


async def main(url: str) -> None:
    client = await nats.connect(url)
    done = asyncio.Event()

    async def on_message(message: Msg) -> None:
        print(f"{message.subject}: {message.data.decode()}")
        if message.subject == "greet.bye":
            done.set()

    await client.subscribe("greet.*", cb=on_message)
    await client.publish("greet.anna", b"Hello, Anna")
    await client.publish("greet.bob", b"Hello, Bob")
    await client.publish("weather.rome", b"nobody here listens to this one")
    await client.publish("greet.bye", b"That was all")
    await asyncio.wait_for(done.wait(), timeout=5)
    await client.drain()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))
