"""Messages that have begun and are in no queue yet: who has how much of them, and who must go when it is too much.

No client waits for room: one that stops in the middle of a body would hold all others up for ever. Instead the user
who has most of what is unfinished loses the connection that has most of it, with 506; a client with one message among
attackers is not the one. Called by the data plane (core/connection/unfinished.py) when the node's budget is
exceeded."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from leveret.auth.node_limits import NodeLimits
from leveret.core.connection.unfinished import Unfinished, UnfinishedTotal
from leveret.errors import HardError
from leveret.runtime.log import get_logger

log = get_logger(__name__)

RESOURCE_ERROR = 506


class Holder(Protocol):
    """A connection, as far as it matters here."""

    name: str
    user: str

    def close_by_broker(self, code: int, text: str) -> None: ...


class UnfinishedMessages:
    def __init__(self, limits: NodeLimits) -> None:
        self._total = UnfinishedTotal()
        self._total.guardian = self._make_room
        self._holders: dict[Unfinished, Holder] = {}
        self.closed_total = 0
        self.configure(limits)

    @property
    def held_bytes(self) -> int:
        held: int = self._total.held
        return held

    def configure(self, limits: NodeLimits) -> None:
        most = limits.unfinished_per_connection_bytes_max
        self._total.connection_held_max = max(most, limits.body_bytes_max) if most else 0
        most = limits.unfinished_bytes_max
        # What a client may send at all fits if it is the only one: a body, or a frame of a stream with its size.
        self._total.held_max = max(most, limits.body_bytes_max, limits.stream_frame_max + 4) if most else 0

    def open_account(self, holder: Holder) -> Unfinished:
        account = Unfinished(self._total)
        self._holders[account] = holder
        return account

    def close_account(self, account: Unfinished) -> None:
        """Its connection has given back what it had."""
        self._holders.pop(account, None)

    def _make_room(self, growing: Unfinished) -> None:
        of_users: Counter[str] = Counter()
        for account, holder in self._holders.items():
            of_users[holder.user] += account.held
        user = max(of_users, key=lambda name: of_users[name])
        account, holder = max(
            ((account, holder) for account, holder in self._holders.items() if holder.user == user),
            key=lambda pair: pair[0].held,
        )
        text = f"unfinished messages of all clients are larger than {self._total.held_max} bytes"
        log.warning(
            "connection closed: it has most of the messages that are unfinished",
            connection=holder.name,
            user=user,
            unfinished_bytes=account.held,
            unfinished_bytes_of_user=of_users[user],
        )
        self.closed_total += 1
        if account is growing:
            raise HardError(RESOURCE_ERROR, text)
        holder.close_by_broker(RESOURCE_ERROR, text)
