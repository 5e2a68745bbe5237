"""Logins: is this the user's password?

The hash is slow by design. So a success is remembered as a keyed digest, which a crowd of workers with the same
credentials then matches in microseconds, and equal attempts that arrive together are checked once. A failure always
costs the full hash, for unknown users as well, so that nobody learns from the time it takes who exists."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from concurrent.futures import ThreadPoolExecutor

from leveret.catalog.catalog import Catalog
from leveret.catalog.passwords import SALT_BYTES, hash_password, verify_password
from leveret.runtime.dice import Dice

REMEMBERED_MAX = 10000


class _Attempt:
    """A check under way, and how many connections wait for it."""

    def __init__(self, task: asyncio.Task[bool]) -> None:
        self.task = task
        self.waiting = 0


class Logins:
    def __init__(self, catalog: Catalog, dice: Dice) -> None:
        self._catalog = catalog
        self._dice = dice
        self._key = dice.salt(32)
        # User -> (the hash it was checked against, digest of the password that fitted)
        self._known: dict[str, tuple[str, bytes]] = {}
        self._running: dict[tuple[str, bytes], _Attempt] = {}
        # One thread: guessing passwords must not take more than one core from the broker.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leveret-login")
        self._decoy: str | None = None

    def hash(self, password: bytes) -> str:
        return hash_password(password, self._dice.salt(SALT_BYTES))

    def remember(self, user: str, password_hash: str, password: bytes) -> None:
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[user] = (password_hash, self._digest(password))

    def recognise(self, user: str, password: bytes) -> bool:
        """True if this very login has succeeded before and the user's password is still the same."""
        record = self._catalog.users.get(user)
        known = self._known.get(user)
        return (
            record is not None
            and known is not None
            and known[0] == record.password_hash
            and hmac.compare_digest(known[1], self._digest(password))
        )

    async def authenticate(self, user, password, peer_host, mechanism):
        from leveret.broker.identity import CatalogUser
        from leveret.errors import LoginRefused

        if self.recognise(user, password) or await self.verify(user, password):
            return CatalogUser(self._catalog, user)
        raise LoginRefused("bad")

    async def verify(self, user: str, password: bytes) -> bool:
        """The slow check, off the loop. It is given up when nobody waits for it any more: a flood of bad logins must
        not keep the thread busy long after its connections are gone."""
        attempt = (user, self._digest(password))
        running = self._running.get(attempt)
        if running is None:
            running = self._running[attempt] = _Attempt(asyncio.ensure_future(self._verify(user, password)))
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if running.waiting == 0:
                running.task.cancel()
                if self._running.get(attempt) is running:
                    del self._running[attempt]

    async def _verify(self, user: str, password: bytes) -> bool:
        loop = asyncio.get_running_loop()
        record = self._catalog.users.get(user)
        password_hash = record.password_hash if record is not None else ""
        if not password_hash:
            if self._decoy is None:
                self._decoy = await loop.run_in_executor(self._thread, self.hash, b"nobody")
            await loop.run_in_executor(self._thread, verify_password, self._decoy, password)
            return False
        if not await loop.run_in_executor(self._thread, verify_password, password_hash, password):
            return False
        current = self._catalog.users.get(user)
        if current is None or current.password_hash != password_hash:
            return False
        self.remember(user, password_hash, password)
        return True

    def _digest(self, password: bytes) -> bytes:
        return hashlib.blake2b(password, key=self._key, digest_size=32).digest()

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
