"""All accounts of a server, by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from headrace.accounts.account import Account
from headrace.config.identity import GLOBAL_ACCOUNT, AccountOptions
from headrace.config.options import Options


class Accounts:
    """The accounts that the options name, the global one and the system account."""

    def __init__(self, options: Options) -> None:
        self._by_name: dict[str, Account] = {}
        self._adopted: set[str] = set()
        self.listeners: list[Callable[[Account], None]] = []
        """Get every account that is adopted, and every change of one."""
        self.update(options)

    def update(self, options: Options) -> None:
        """Follow changed options. What was in an account that stays is still there."""
        self.system_name = options.system_account_name
        old, self._by_name = self._by_name, {}
        for wanted in options.all_accounts:
            account = self._by_name[wanted.name] = old.get(wanted.name) or Account(wanted)
            if wanted.name not in self._adopted:
                account.options = wanted
        for name in self._adopted - self._by_name.keys():
            self._by_name[name] = old[name]
        for account in self:
            account.follow_options(self._by_name)

    def __getitem__(self, name: str) -> Account:
        return self._by_name[name]

    def __iter__(self) -> Iterator[Account]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Account | None:
        return self._by_name.get(name)

    def adopt(self, options: AccountOptions) -> Account:
        """An account that is not in the configuration: a new one, or one that has changed."""
        account = self._by_name.get(options.name)
        if account is None:
            account = self._by_name[options.name] = Account(options)
        else:
            account.options = options
            account.updated_at = time.time_ns()
        self._adopted.add(options.name)
        for other in self:
            if other is account or other.imports_from(account):
                other.follow_options(self._by_name)
        for listener in self.listeners:
            listener(account)
        return account

    @property
    def of_everybody(self) -> Account:
        """The global account."""
        return self._by_name[GLOBAL_ACCOUNT]
