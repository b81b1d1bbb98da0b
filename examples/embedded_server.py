"""A server inside a program, in the program's own event loop.

For tests, or to ship a program together with its broker:

    python examples/embedded_server.py
"""

import asyncio

import nats

from headrace.config.options import Options
from headrace.logs import Logger, LogSettings
from headrace.server import Server


async def main() -> None:
    logger = Logger(LogSettings())
    # Port -1 is any free one; no_sigs leaves Ctrl-C to the program.
    server = Server(Options(host="127.0.0.1", port=-1, no_sigs=True), logger)
    await server.start()
    print("listening on", server.address)

    client = await nats.connect(f"nats://{server.address}")
    subscription = await client.subscribe("greet.*")
    await client.publish("greet.anna", b"Hello from inside")
    message = await subscription.next_msg(timeout=5)
    print(f"{message.subject}: {message.data.decode()}")
    await client.close()

    server.stop()
    await server.serve()  # returns when everything is closed
    logger.close()


asyncio.run(main())
