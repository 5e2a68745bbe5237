"""The password of the default user as the configuration has it: a changed one counts, at a start and after a reload.

Only a changed one: what the configuration said last is remembered as a hash, so that a password which was set
otherwise since is not undone by a restart. A user who was deleted is not made again."""

from __future__ import annotations

import asyncio

import msgspec

from leveret.auth.audit import Actor
from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.definitions import OWN_PREFIX
from leveret.catalog.passwords import verify_password
from leveret.catalog.records import GlobalParameter, User
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# User and hash of what the configuration said last.
SAID = f"{OWN_PREFIX}default_password"
CONFIGURATION = Actor("leveret", "", "configuration")


class DefaultPassword:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    def at_start(self, user: str, password: bytes, given: bool, fresh: bool) -> None:
        """Before clients are accepted, after the default user was created. One that is not `given` changes nothing."""
        record = self._broker.catalog.users.get(user)
        if record is None:
            return
        if fresh:
            # Definitions may have brought the user, with another password.
            own = not given or verify_password(record.password_hash, password)
            self._broker.apply(_remember(user, record.password_hash if own else self._broker.logins.hash(password)))
            return
        said = self._said(user)
        if not given or (said is not None and verify_password(said, password)):
            return
        if said is None and verify_password(record.password_hash, password):
            self._broker.apply(_remember(user, record.password_hash))
        elif said is None:
            # A version before this one has made the user: which of the two is newer is unknown.
            log.warning("the default user has another password than the configuration, which stays", user=user)
            self._broker.apply(_remember(user, self._broker.logins.hash(password)))
        else:
            self._set(record, self._broker.logins.hash(password))

    def change(self, user: str, password: bytes) -> None:
        """On a running loop; what was asked for last counts."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(self._change(user, password))

    async def close(self) -> None:
        """A change that was asked for is made before the node stops."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _change(self, user: str, password: bytes) -> None:
        password_hash = await asyncio.to_thread(self._broker.logins.hash, password)
        record = self._broker.catalog.users.get(user)
        if record is None:
            log.warning("the default user does not exist; its new password has no effect", user=user)
        else:
            self._set(record, password_hash)

    def _said(self, user: str) -> str | None:
        kept = self._broker.catalog.global_parameters.get(SAID)
        value = None if kept is None else kept.value
        found = value.get("password_hash") if isinstance(value, dict) and value.get("user") == user else None
        return found if isinstance(found, str) else None

    def _set(self, record: User, password_hash: str) -> None:
        changed = commands.PutUser(msgspec.structs.replace(record, password_hash=password_hash))
        self._broker.apply(commands.Together((changed, _remember(record.name, password_hash))))
        log.info("the default user has the password of the configuration now", user=record.name)
        if self._broker.audit is not None:
            self._broker.audit.note(CONFIGURATION, "user.password", {"user": record.name})


def _remember(user: str, password_hash: str) -> commands.PutGlobalParameter:
    return commands.PutGlobalParameter(GlobalParameter(SAID, {"user": user, "password_hash": password_hash}))
