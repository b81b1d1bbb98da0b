"""A server inside a program, for tests, or to ship a program together with its broker.

python examples/embedded_server.py
"""

import asyncio

import nats

from headrace import Server


async def main() -> None:
    async with Server() as server:  # on a free port, with streams in a temporary directory
        print("listening on", server.url)
        client = await nats.connect(server.url)
        subscription = await client.subscribe("greet.*")
        await client.publish("greet.anna", b"Hello from inside")
        message = await subscription.next_msg(timeout=5)
        print(f"{message.subject}: {message.data.decode()}")
        await client.close()


asyncio.run(main())
