"""Back-off: guessing passwords is limited to one try a second.

Two counts of failures, each forgotten after a while without any. For a user at an address, a try counts when it comes
and is taken back if it succeeds, so that disconnecting early does not avoid a failure; beyond the limit tries stand in
line, a second apart. For an address as such, whichever user it tries, only failures count; beyond the limit each try
that is not known to be good waits a second, beside others. A flood of addresses or users is forgotten from its oldest
on."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key")

PAUSE_S = 1.0
# Longer lines are not joined: the handshake would be over before it is one's turn.
LINE_S_MAX = 5.0
# Tries of one address that wait beside each other.
WAITING_MAX = 10
FORGET_S = 60.0
ENTRIES_MAX = 10000


@dataclass(slots=True)
class _Entry:
    """Of a user at an address, or of an address."""

    failures: int = 0
    last_at: float = 0.0
    # When the next try of the user at the address may be made.
    free_at: float = 0.0
    # Tries of the address that wait.
    waiting: int = 0


class Backoff:
    """`now` is monotonic seconds everywhere. A `failures_max` of 0 disables the back-off."""

    def __init__(self, failures_max: int) -> None:
        self.failures_max = failures_max
        self._pairs: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._addresses: OrderedDict[str, _Entry] = OrderedDict()

    def is_held_up(self, user: str, host: str, now: float) -> bool:
        """Whether this user at this address must wait even with a password that is known to be right."""
        pair = self._pairs.get((user, network_of(host)))
        return (
            self.failures_max > 0
            and pair is not None
            and pair.failures >= self.failures_max
            and now - pair.last_at < FORGET_S
        )

    def arrive(self, user: str, host: str, now: float) -> float | None:
        """A try: how many seconds it has to wait, or None if it is not to be made at all. Counts as a failure until
        `succeeded` is called."""
        if self.failures_max == 0:
            return 0.0
        pair = _recent(self._pairs, (user, network_of(host)), now)
        if pair.failures >= self.failures_max:
            start = max(now, pair.free_at)
            if start - now > LINE_S_MAX:
                return None
            pair.free_at = start + PAUSE_S
        else:
            start = now
            pair.free_at = now + PAUSE_S
        pair.failures += 1
        pair.last_at = now
        return max(start - now, self.pause_s(host, now))

    def pause_s(self, host: str, now: float) -> float:
        """How long a try of this address has to wait, for any user. For tokens that is all: they cannot be guessed."""
        address = self._addresses.get(network_of(host))
        if (
            address is None
            or self.failures_max == 0
            or address.failures < self.failures_max
            or now - address.last_at > FORGET_S
        ):
            return 0.0
        return PAUSE_S

    def joins(self, host: str, now: float) -> bool:
        """Before waiting: false if too many of the address wait already. Each true answer takes a call of `leaves`."""
        address = _recent(self._addresses, network_of(host), now)
        if address.waiting >= WAITING_MAX:
            return False
        address.waiting += 1
        return True

    def leaves(self, host: str) -> None:
        address = self._addresses.get(network_of(host))
        if address is not None and address.waiting > 0:
            address.waiting -= 1

    def succeeded(self, user: str, host: str) -> None:
        """The address keeps its failures: an account of one's own must not help to guess others'."""
        self._pairs.pop((user, network_of(host)), None)

    def failed(self, host: str, now: float) -> None:
        if self.failures_max > 0:
            address = _recent(self._addresses, network_of(host), now)
            address.failures += 1
            address.last_at = now


def _recent(entries: OrderedDict[Key, _Entry], key: Key, now: float) -> _Entry:
    """The entry, new if there is none or its last failure is long ago, and the youngest from now on."""
    entry = entries.get(key)
    if entry is None or (entry.failures and now - entry.last_at >= FORGET_S):
        entry = entries[key] = _Entry()
        if len(entries) > ENTRIES_MAX:
            entries.popitem(last=False)
    entries.move_to_end(key)
    return entry


def network_of(host: str) -> str:
    """What counts as one address: IPv4 in IPv6's clothes is IPv4, and of IPv6 the network that one household has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def is_loopback(host: str) -> bool:
    """Whether a peer's address is on this machine; an empty one is a local socket's."""
    if host == "":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback
