"""JetStream as a server has it once: committer, limits, storage directory, logger and clock.

Its streams belong to accounts (jetstream_account.py), which share all of that. There is one account: the
global account `$G`, or the one in the configuration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.broker.broker import Broker
from headrace.config.options import AccountLimits, Options
from headrace.engine.core.interest import Interest
from headrace.engine.store.committer import Committer
from headrace.go_formats import NANOSECONDS
from headrace.logs import Logger
from headrace.streams import formats
from headrace.streams.jetstream_account import JetStreamAccount
from headrace.streams.resources import ServerResources
from headrace.streams.slices import Slices


class JetStream:
    """The event loop's thread owns everything in it.

    `now` is the clock by which messages are stamped and expire, in nanoseconds since 1970.
    """

    def __init__(
        self, options: Options, broker: Broker, logger: Logger, now: Callable[[], int] = formats.now
    ) -> None:
        self.now = now
        self.options = options
        self.logger = logger
        self.hub = broker.hub
        self.on_bug = broker.on_bug
        self.domain = options.jetstream_domain
        self.server_name = options.server_name or broker.server_id
        self.directory = options.jetstream_directory
        self.committer = Committer(sync_interval=options.sync_interval)
        self.slices = Slices()
        self.resources = ServerResources(
            max_memory=options.jetstream_max_memory,
            max_storage=options.jetstream_max_store,
            max_duplicate_window=int(options.jetstream_limits.duplicate_window * NANOSECONDS),
        )
        self.changing_streams = asyncio.Lock()
        """Held from the check whether a stream may have its resources until it has them (stream_requests)."""
        self.accounts: dict[str, JetStreamAccount] = {}
        self._add_account(options.account, broker.interest, options.account_limits, options.account_jetstream)

    def _add_account(
        self, name: str, interest: Interest, limits: AccountLimits | None, is_enabled: bool
    ) -> None:
        self.accounts[name] = JetStreamAccount(self, name, interest, limits=limits, is_enabled=is_enabled)

    @property
    def strict(self) -> bool:
        return self.options.jetstream_strict

    @property
    def max_payload(self) -> int:
        return self.hub.max_payload

    def start(self) -> None:
        """Raises StoreError if the directory cannot be used, ConfigError if accounts may use too much."""
        self.resources.check_promised()
        self.hub.add_source(self.committer.fileno(), self._on_committed)
        for account in self.accounts.values():
            account.start()

    async def stop(self) -> None:
        """Stop accepting requests and messages, and write everything to disk."""
        await asyncio.gather(*(account.stop() for account in self.accounts.values()))
        self.hub.remove_source(self.committer.fileno())
        self.committer.close()

    def _on_committed(self) -> None:
        self.committer.poll()
