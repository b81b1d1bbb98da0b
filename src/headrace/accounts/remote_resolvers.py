"""Resolvers that have to ask others: a web server, or whoever answers in the system account.

What they find is kept where `load` finds it, so that everything else works as if it had been there all along.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable

from headrace.accounts.resolvers import AccountNotFound
from headrace.accounts.token_directory import CannotStore, TokenDirectory
from headrace.keys.jwt import MAX_TOKEN_BYTES
from headrace.keys.nkeys import is_public

Ask = Callable[[str], Awaitable[str]]


class UrlResolver:
    """GET URL/<account>. Only the public key of an account is ever asked for."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._fetched: dict[str, str] = {}

    def load(self, name: str) -> str:
        """What was fetched before, once: next time there may be a newer one. Raises AccountNotFound."""
        try:
            return self._fetched.pop(name)
        except KeyError:
            raise AccountNotFound("account missing") from None

    def store(self, name: str, token: str) -> None:
        self._fetched[name] = token

    async def fetch(self, name: str) -> str:
        """Raises AccountNotFound."""
        return await asyncio.to_thread(self.fetch_now, name)

    def fetch_now(self, name: str) -> str:
        """Blocks. With an empty name it only checks that the server answers. Raises AccountNotFound."""
        if name and not is_public(name, "account"):
            raise AccountNotFound("account missing")
        url = self._url + name
        try:
            with urllib.request.urlopen(url, timeout=self._timeout) as response:
                body: bytes = response.read(MAX_TOKEN_BYTES + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise AccountNotFound(f'could not fetch <"{url}">: {error.code} {error.reason}') from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise AccountNotFound(f'could not fetch <"{url}">: {reason}') from None
        return body.decode(errors="replace").strip()


class CacheResolver:
    """A directory with some tokens, each for a while; others are asked for in the system account."""

    def __init__(self, directory: TokenDirectory, ttl: float, ask: Ask) -> None:
        self._directory = directory
        self._ttl = ttl
        self._ask = ask

    def load(self, name: str) -> str:
        token = self._directory.load(name)
        if 0 < self._ttl < time.time() - os.stat(self._directory.path_of(name)).st_mtime:
            self._directory.delete(name, for_good=True)
            raise AccountNotFound("account missing")
        return token

    def store(self, name: str, token: str) -> None:
        self._directory.store(name, token)

    async def fetch(self, name: str) -> str:
        """Raises AccountNotFound."""
        token = await self._ask(name)
        try:
            self._directory.save(name, token)
        except CannotStore as error:
            raise AccountNotFound(str(error)) from None
        return token
