"""A directory with the token of every account: AD....jwt

The layout is nats-server's, so that both can use the same directory. An account is a file name here: nothing
but a public key of an account ever becomes one.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator

from headrace.accounts.resolvers import AccountNotFound
from headrace.keys.claims import AccountClaims
from headrace.keys.jwt import InvalidToken, decode_as
from headrace.keys.nkeys import is_public

ENDING = ".jwt"
DELETED = ".deleted"
DIRECTORY_MODE = 0o750
FILE_MODE = 0o640


class CannotStore(Exception):
    """A token cannot be stored, or deleted."""


class TokenDirectory:
    """`limit` tokens at most; 0: any number. `drops_oldest`: a new one takes the place of the oldest."""

    def __init__(self, directory: str, *, limit: int = 0, drops_oldest: bool = False) -> None:
        self.directory = directory
        self._limit = limit
        self._drops_oldest = drops_oldest

    def make(self) -> None:
        """Raises OSError."""
        os.makedirs(self.directory, DIRECTORY_MODE, exist_ok=True)

    def load(self, name: str) -> str:
        """Raises AccountNotFound."""
        try:
            with open(self.path_of(name), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except (OSError, CannotStore):
            raise AccountNotFound("account jwt not found") from None

    def store(self, name: str, token: str) -> None:
        """Unless it has a newer one. Raises CannotStore."""
        if not self.has_newer(name, token):
            self.save(name, token)

    def has_newer(self, name: str, token: str) -> bool:
        """Whether it has a newer token of this account, or the same one."""
        try:
            known = decode_as(AccountClaims, self.load(name))
            new = decode_as(AccountClaims, token)
        except (AccountNotFound, InvalidToken):
            return False
        return known.id == new.id or known.issued_at > new.issued_at

    def save(self, name: str, token: str) -> None:
        """Raises CannotStore."""
        path = self.path_of(name)
        try:
            if self.load(name) == token:
                return
        except AccountNotFound:
            self._make_room()
        try:
            self._write(path, token)
        except OSError as error:
            raise CannotStore(f"cannot write {path}: {error.strerror}") from None

    def delete(self, name: str, *, for_good: bool) -> None:
        """Raises CannotStore."""
        path = self.path_of(name)
        try:
            if for_good:
                os.remove(path)
            else:
                os.replace(path, path + DELETED)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise CannotStore(f"cannot delete {path}: {error.strerror}") from None

    def names(self) -> list[str]:
        """All accounts, in order."""
        try:
            found = os.listdir(self.directory)
        except OSError:
            return []
        names = (name.removesuffix(ENDING) for name in found if name.endswith(ENDING))
        return sorted(name for name in names if is_public(name, "account"))

    def tokens(self) -> Iterator[tuple[str, str]]:
        for name in self.names():
            try:
                yield name, self.load(name)
            except AccountNotFound:  # it was deleted in the meantime
                continue

    def hash(self) -> bytes:
        """The same in every server that has the same tokens: the sums of all, combined in any order."""
        combined = bytes(32)
        for _, token in self.tokens():
            digest = hashlib.sha256(token.encode()).digest()
            combined = bytes(one ^ two for one, two in zip(combined, digest, strict=True))
        return combined

    def path_of(self, name: str) -> str:
        """Raises CannotStore if this is not the public key of an account."""
        if not is_public(name, "account"):
            raise CannotStore("invalid public key")
        return os.path.join(self.directory, name + ENDING)

    def _make_room(self) -> None:
        names = self.names() if self._limit > 0 else []
        if not 0 < self._limit <= len(names):
            return
        if not self._drops_oldest:
            raise CannotStore("jwt store is full")
        oldest = min(names, key=lambda name: os.stat(self.path_of(name)).st_mtime_ns)
        self.delete(oldest, for_good=True)

    def _write(self, path: str, token: str) -> None:
        """Atomically, even if the machine loses power meanwhile."""
        descriptor, temporary = tempfile.mkstemp(dir=self.directory)
        try:
            with os.fdopen(descriptor, "w") as file:
                os.fchmod(file.fileno(), FILE_MODE)
                file.write(token)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
