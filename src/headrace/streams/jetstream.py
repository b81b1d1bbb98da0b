"""What JetStream has once per server: committer, limits, storage directory, logger and clock.

Its streams belong to accounts (jetstream_account.py), which share all of that. The system account has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.accounts.account import Account
from headrace.accounts.directory import Accounts
from headrace.broker.broker import Broker
from headrace.config.options import Options
from headrace.engine.store.committer import Committer
from headrace.errors import ConfigError
from headrace.go_formats import NANOSECONDS
from headrace.logs import Logger
from headrace.streams import formats
from headrace.streams.errors import StoreError
from headrace.streams.jetstream_account import API_INFO, JetStreamAccount
from headrace.streams.jetstream_limits import ServerResources
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
        self.resources: ServerResources = ServerResources(
            max_memory=options.jetstream_max_memory,
            max_storage=options.jetstream_max_store,
            max_duplicate_window=int(options.jetstream_limits.duplicate_window * NANOSECONDS),
        )
        self.changing_streams = asyncio.Lock()
        """Held from the check whether a stream may have its resources until it has them (stream_requests)."""
        self.accounts: dict[str, JetStreamAccount] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self.system_account = broker.accounts.system_name
        for account in broker.accounts:
            if account.name != self.system_account:
                self._add_account(account)
        broker.accounts.listeners.append(self._on_account)

    def _add_account(self, account: Account) -> None:
        """An account without streams has an API that says so, unless it uses the API of another account."""
        limits = account.options.jetstream
        if limits is not None or not account.imports_service(API_INFO):
            self.accounts[account.name] = JetStreamAccount(
                self, account.name, account.interest, limits=limits, is_enabled=limits is not None
            )

    def _on_account(self, account: Account) -> None:
        """An account was added or changed after the start, by its token."""
        if account.name == self.system_account:
            return
        self._end_if_changed(account.name, account)
        self._follow(account)

    def _end_if_changed(self, name: str, account: Account | None) -> None:
        running = self.accounts.get(name)
        if running is None:
            return
        if account is None or running.interest is not account.interest or not running.fits(account):
            self._end(self.accounts.pop(name))

    def _follow(self, account: Account) -> None:
        if account.name in self.accounts:
            self.accounts[account.name].resources.set_limits(account.options.jetstream)
            return
        self._add_account(account)
        if account.name not in self.accounts:
            return
        if self._stopping:
            self._start_later(self.accounts[account.name])
        else:
            self._start_account(self.accounts[account.name])

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

    def update(self, accounts: Accounts) -> None:
        """Follow a reload: accounts may be new, gone, or have different limits. Files of streams stay."""
        wanted = {one.name: one for one in accounts if one.name != accounts.system_name}
        for name in list(self.accounts):
            self._end_if_changed(name, wanted.get(name))
        for account in wanted.values():
            self._follow(account)
        try:
            self.resources.check_promised()
        except ConfigError as error:
            self.logger.error(str(error))

    def _end(self, account: JetStreamAccount) -> None:
        self.resources.accounts.remove(account.resources)
        if not account.is_enabled:
            account.client.close()  # it has only refused: there is nothing to wait for
            return
        task = asyncio.get_running_loop().create_task(account.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _start_later(self, account: JetStreamAccount) -> None:
        """Runs after accounts have ended: it may be the same account, with the same files."""

        async def start() -> None:
            await asyncio.gather(*(task for task in self._stopping if task is not asyncio.current_task()))
            if self.accounts.get(account.name) is account:
                self._start_account(account)

        task = asyncio.get_running_loop().create_task(start())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _start_account(self, account: JetStreamAccount) -> None:
        try:
            account.start()
        except StoreError as error:
            self.logger.error(f"Account {account.name!r} has no streams: {error}")

    async def stop(self) -> None:
        """Stop accepting requests and messages, and write everything to disk."""
        await asyncio.gather(*self._stopping)
        await asyncio.gather(*(account.stop() for account in self.accounts.values()))
        self.hub.remove_source(self.committer.fileno())
        self.committer.close()

    def _on_committed(self) -> None:
        self.committer.poll()
