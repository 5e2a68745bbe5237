"""Logins: checks a name and a password, and whether the user may connect from that address.

One door for AMQP, streams and HTTP. The hash is slow by design. So a success is remembered as a keyed digest, which a
crowd of workers with the same credentials then matches in microseconds, and equal attempts that arrive together are
checked once. All others stand in a line that is fair between addresses (auth/login_queue.py). A failure always costs
the full hash, for unknown users as well, so that the time it takes does not reveal which users exist; repeated
failures have to wait (auth/backoff.py)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from leveret.auth.backoff import Backoff, is_loopback
from leveret.auth.identity import CatalogUser, Identity
from leveret.auth.login_queue import LoginQueue
from leveret.auth.tokens import Tokens, TokenSettings, is_token
from leveret.catalog import passwords
from leveret.catalog.catalog import Catalog
from leveret.catalog.passwords import PASSWORD_BYTES_MAX, SALT_BYTES, hash_password, verify_password
from leveret.errors import LoginRefused
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice

REMEMBERED_MAX = 10000
INVALID = "invalid credentials"
SUSPENDED = "suspended: the catalog was damaged, see `leveret users suspended`"
ONLY_HERE = "user can only connect via localhost"


class AuthSettings(msgspec.Struct, frozen=True):
    """What a node sets for all logins."""

    # Users who may log in only from this machine.
    loopback_users: tuple[str, ...] = ("guest",)
    # How many failures in a row are allowed before the next try must wait; 0 for any number.
    failures_max: int = 5
    # How new passwords are hashed; one of catalog.passwords.ALGORITHMS.
    password_hash: str = passwords.ARGON2ID
    # Whether all users wait for an operator once the catalog has lost commands (broker/suspensions.py).
    suspends_on_damage: bool = True
    # The issuers whose tokens are accepted in place of passwords; None for no tokens.
    tokens: TokenSettings | None = None


@dataclass(slots=True)
class Attempts:
    """Logins by one protocol, all in all."""

    succeeded: int = 0
    failed: int = 0


class _Attempt:
    """A check under way, and how many connections wait for it."""

    def __init__(self, task: asyncio.Task[Identity]) -> None:
        self.task = task
        self.waiting = 0


class Logins:
    def __init__(
        self,
        catalog: Catalog,
        dice: Dice,
        clock: Clock | None = None,
        settings: AuthSettings | None = None,
        store_hash: Callable[[str, str], None] = lambda user, password_hash: None,
        threads: int | None = None,
    ) -> None:
        """`store_hash` keeps a better hash of a user's password. Without `threads` there are as many as cores."""
        self._catalog = catalog
        self._dice = dice
        self._clock = Clock() if clock is None else clock
        self._settings = AuthSettings() if settings is None else settings
        self._store_hash = store_hash
        self._key = dice.salt(32)
        self.backoff = Backoff(self._settings.failures_max)
        # By protocol: amqp, stream, http.
        self.attempts: dict[str, Attempts] = defaultdict(Attempts)
        # User -> (the hash it was checked against, digest of the password that fitted)
        self._known: dict[str, tuple[str, bytes]] = {}
        self._running: dict[tuple[str, str, bytes], _Attempt] = {}
        self.line = LoginQueue(threads)
        self._decoy: str | None = None
        self._tokens = self._make_tokens(self._settings.tokens)

    def _make_tokens(self, settings: TokenSettings | None) -> Tokens | None:
        return None if settings is None else Tokens(settings, self._clock, self._key, self.line.run)

    @property
    def settings(self) -> AuthSettings:
        return self._settings

    def configure(self, settings: AuthSettings) -> None:
        """New settings, which apply to logins from now on; raises ValueError, and leaves all as it was, for a
        key that cannot be used."""
        tokens = self._make_tokens(settings.tokens)
        if self._tokens is not None:
            self._tokens.close()
        self._tokens = tokens
        self._settings = settings
        self.backoff.failures_max = settings.failures_max

    @property
    def refused_total(self) -> int:
        return sum(attempts.failed for attempts in self.attempts.values())

    def hash(self, password: bytes) -> str:
        """Of a new password. Slow: to be called off the loop."""
        return hash_password(password, self._dice.salt(SALT_BYTES), self._settings.password_hash)

    def remember(self, user: str, password_hash: str, password: bytes) -> None:
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        self._known[user] = (password_hash, self._digest(password))

    def allowed_from(self, user: str, host: str) -> bool:
        """Whether this user may come from there; `host` is the address of the socket's other end."""
        return user not in self._settings.loopback_users or is_loopback(host)

    def _is_token(self, password: bytes) -> bool:
        return self._tokens is not None and is_token(password)

    # ---- the quick way

    def recognise(self, user: str, password: bytes, host: str, protocol: str = "amqp") -> Identity | None:
        """The identity, if this very login has succeeded before and nothing has changed since. None says nothing:
        ask `authenticate` then."""
        if not self._is_token(password) and self.backoff.is_held_up(user, host, self._clock.monotonic()):
            return None
        identity = self._recall(user, password)
        if identity is not None and (self._is_suspended(identity) or not self.allowed_from(identity.name, host)):
            return None
        if identity is not None:
            self.attempts[protocol].succeeded += 1
        return identity

    def _recall(self, user: str, password: bytes) -> Identity | None:
        if self._tokens is not None and is_token(password):
            # The name given with it is ignored: the token names its user.
            return self._tokens.recall(password)
        record = self._catalog.users.get(user)
        known = self._known.get(user)
        if (
            record is not None
            and known is not None
            and known[0] == record.password_hash
            and hmac.compare_digest(known[1], self._digest(password))
        ):
            return CatalogUser(self._catalog, user)
        return None

    # ---- the slow way

    async def authenticate(self, user: str, password: bytes, host: str, protocol: str = "amqp") -> Identity:
        """Who this is; raises LoginRefused. `host` is the address of the socket's other end, empty for a local socket.
        The check is abandoned when its caller is cancelled: a flood of bad logins must not keep the thread busy long
        after its connections are gone."""
        known = self.recognise(user, password, host, protocol)
        if known is not None:
            return known
        try:
            identity = await self._authenticate(user, password, host)
        except (LoginRefused, asyncio.CancelledError) as error:
            self.attempts[protocol].failed += 1
            if not isinstance(error, LoginRefused) or not error.suspended:
                self.backoff.failed(host, self._clock.monotonic())
            raise
        self.attempts[protocol].succeeded += 1
        return identity

    async def authenticate_token(self, token: str | bytes, host: str, protocol: str = "amqp") -> Identity:
        """Whose token this is; raises LoginRefused."""
        octets = token.encode("utf-8", "surrogatepass") if isinstance(token, str) else token
        if self._tokens is None or not is_token(octets):
            self.attempts[protocol].failed += 1
            raise LoginRefused("no token is taken here" if self._tokens is None else "it is no token")
        return await self.authenticate("", octets, host, protocol)

    def admit(self, user: str, host: str, protocol: str = "amqp") -> Identity:
        """For a user who was authenticated otherwise, such as by a certificate."""
        if user not in self._catalog.users:
            self.attempts[protocol].failed += 1
            raise LoginRefused("no such user")
        if not self.allowed_from(user, host):
            self.attempts[protocol].failed += 1
            raise LoginRefused(ONLY_HERE, wrong_place=True)
        identity = CatalogUser(self._catalog, user)
        if self._is_suspended(identity):
            self.attempts[protocol].failed += 1
            raise LoginRefused(SUSPENDED, suspended=True)
        self.attempts[protocol].succeeded += 1
        return identity

    def _is_suspended(self, identity: Identity) -> bool:
        """Users of the catalog only: what a token's bearer may do is in the token, and no damage here changes that."""
        return isinstance(identity, CatalogUser) and identity.name in self._catalog.suspensions

    def refuse(self, protocol: str = "amqp") -> None:
        """Notes a login that failed before there was a name to ask for."""
        self.attempts[protocol].failed += 1

    async def _authenticate(self, user: str, password: bytes, host: str) -> Identity:
        if not self._is_token(password) and not self.allowed_from(user, host):
            raise LoginRefused(ONLY_HERE, wrong_place=True)
        key = (user, host, self._digest(password))
        running = self._running.get(key)
        if running is None:
            running = self._running[key] = _Attempt(asyncio.ensure_future(self._try(user, password, host)))
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if running.waiting == 0:
                running.task.cancel()
                if self._running.get(key) is running:
                    del self._running[key]
            # A refusal has this frame in its traceback, and the task has the refusal.
            del running

    async def _try(self, user: str, password: bytes, host: str) -> Identity:
        """One attempt, when it is its turn."""
        now = self._clock.monotonic()
        by_token = self._is_token(password)
        wait_s = self.backoff.pause_s(host, now) if by_token else self.backoff.arrive(user, host, now)
        if wait_s is None or (wait_s > 0 and not self.backoff.joins(host, now)):
            raise LoginRefused("too many failed logins before this one")
        if wait_s > 0:
            try:
                await asyncio.sleep(wait_s)
            finally:
                self.backoff.leaves(host)
        identity = self._recall(user, password)
        if identity is None:
            if self._tokens is not None and is_token(password):
                identity = await self._tokens.verify(password, host)
            else:
                identity = await self._verify(user, password, host)
        if not self.allowed_from(identity.name, host):
            # A token says only now whose it is.
            raise LoginRefused(ONLY_HERE, wrong_place=True)
        if not by_token:
            self.backoff.succeeded(user, host)
        if self._is_suspended(identity):
            raise LoginRefused(SUSPENDED, suspended=True)
        return identity

    async def _verify(self, user: str, password: bytes, host: str) -> Identity:
        record = self._catalog.users.get(user)
        password_hash = record.password_hash if record is not None else ""
        if passwords.kind_of(password_hash) is None or len(password) > PASSWORD_BYTES_MAX:
            if self._decoy is None:
                self._decoy = await self.line.run(host, hash_password, b"nobody", self._dice.salt(SALT_BYTES))
            await self.line.run(host, verify_password, self._decoy, password[:PASSWORD_BYTES_MAX])
            raise LoginRefused(INVALID)
        if not await self.line.run(host, verify_password, password_hash, password):
            if not passwords.is_costly(password_hash):
                # It was quick, which would tell that the user exists.
                await self.line.run(host, hash_password, password, self._dice.salt(SALT_BYTES), has_waited=True)
            raise LoginRefused(INVALID)
        better = await self._improved(password_hash, password, host)
        current = self._catalog.users.get(user)
        if current is None or current.password_hash != password_hash:
            # Perhaps only the hash was, by a login from another address with the same password.
            known = self._recall(user, password)
            if known is None:
                raise LoginRefused("the password was changed meanwhile")
            return known
        if better is not None:
            self._store_hash(user, better)
        self.remember(user, better or password_hash, password)
        return CatalogUser(self._catalog, user)

    async def _improved(self, password_hash: str, password: bytes, host: str) -> str | None:
        """A better hash for one that came from RabbitMQ, unless such ones are wanted."""
        if passwords.kind_of(password_hash) == passwords.ARGON2ID or self._settings.password_hash != passwords.ARGON2ID:
            return None
        return await self.line.run(host, self.hash, password, has_waited=True)

    def start(self) -> None:
        """Raises OSError if there are no threads to be had."""
        self.line.start()

    def _digest(self, password: bytes) -> bytes:
        return hashlib.blake2b(password, key=self._key, digest_size=32).digest()

    def close(self) -> None:
        if self._tokens is not None:
            self._tokens.close()
        self.line.close()
