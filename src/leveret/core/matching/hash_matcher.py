"""The matchers that send each message to exactly one of the bound destinations: by hash, or by chance.

Owns how keys are hashed and how the winner is found. Never uses Python's hash(), which differs from process to
process, and throws no dice of its own. A destination needs a `name` here (bytes), because order and hash must not
depend on where an object lies in memory. Made by routing/, called by the data plane."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import cython

from leveret.core.matching.matcher import Matcher

if not cython.compiled:
    from math import log

    from leveret.core.matching.matcher import discard_one

    SLOT_COUNT, SLOT_SHIFT = 32768, 49
    _64_BITS = 0xFFFFFFFFFFFFFFFF

    def mix(number):
        number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
        number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _64_BITS
        return number ^ (number >> 31)

    def hash_octets(octets):
        number = 0xCBF29CE484222325
        for octet in octets:
            number = ((number ^ octet) * 0x100000001B3) & _64_BITS
        return mix(number)

    def draw(seed, slot):
        number = (seed + (slot + 1) * 0x9E3779B97F4A7C15) & _64_BITS
        return ((mix(number) >> 11) + 0.5) * (1.0 / 9007199254740992.0)


__all__ = ["SLOTS", "ConsistentHashMatcher", "ModulusHashMatcher", "OrderedMatcher", "RandomMatcher", "stable_hash"]

# Keys are spread over this many slots, and the slots over the destinations. More slots, finer shares: ten equal
# destinations get a tenth each within 2 %, a hundred within 6 %. A bound exchange holds 256 KiB for them.
SLOTS = SLOT_COUNT


def stable_hash(octets: bytes) -> int:
    """The 64-bit hash of the hash exchanges; open to the tests, which pin it."""
    return hash_octets(octets)


def name_of(destination):
    return destination.name


def octets_of(value):
    """What is hashed of a header or property. As in RabbitMQ a missing one is hashed too, as nothing, so that all
    messages without it go to one destination."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    return str(value).encode("utf-8", "surrogateescape")


class Member:
    """A destination with its weight. Bound twice, it counts with the weight it was bound with first."""

    if not cython.compiled:
        __slots__ = ("destination", "keys", "name", "salt", "seed", "weight")

    def __init__(self, destination, name, salt, key):
        self.destination = destination
        self.name = name
        self.salt = salt
        self.seed = hash_octets(name if salt == 0 else name + b"\x00%d" % salt)
        self.keys = [key]
        self.weight = int(key)


def score_below(member, slot, limit):
    """The member's score in a slot if it is below the limit, else the limit. The lowest score wins the slot.

    Scores are drawn from an exponential distribution with the weight as its rate, so the chance to be lowest is the
    share of the weight; none is above 38. -log(u) is at least 1 - u, which spares the logarithm where it could not
    win."""
    u = draw(member.seed, slot)
    if (1.0 - u) >= limit * member.weight:
        return limit
    score = -log(u) / member.weight
    return score if score < limit else limit


class ConsistentHashMatcher(Matcher):
    """x-consistent-hash: the binding key is a weight, and each destination gets its share of the keys.

    For each slot every member draws a score from its own name, and the lowest owns the slot (rendezvous hashing,
    done once per binding instead of once per message). So a member that comes takes slots only for itself, one that
    goes leaves only its own, and the order in which they came does not matter. RabbitMQ moves more than that when
    one goes.

    As in RabbitMQ a second binding of a destination has no effect; unlike there, it takes effect if the first goes.
    Destinations of the same name (a queue and an exchange) are told apart by the order in which they came."""

    if not cython.compiled:
        __slots__ = ("hash_header", "hash_property", "members", "owners")

    def __init__(self, hash_header: str | None = None, hash_property: str | None = None) -> None:
        Matcher.__init__(self)
        self.by_key_only = hash_header is None and hash_property is None
        self.first_key_only = True
        self.hash_header = hash_header
        self.hash_property = hash_property
        self.members: dict[int, Member] = {}
        self.owners: list[Member] = []

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        member = self.members.get(id(destination))
        if member is not None:
            member.keys.append(key)
        else:
            name = name_of(destination)
            member = Member(destination, name, self.salt_for(name), key)
            assert member.weight > 0, "the weight is validated before it gets here"
            self.enter(member)
            self.members[id(destination)] = member
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        member = self.members[id(destination)]
        if key not in member.keys:
            raise KeyError(key)
        first = member.keys[0] == key
        member.keys.remove(key)
        self.count -= 1
        if not first:
            return
        del self.members[id(destination)]
        self.leave(member)
        if member.keys:
            member.weight = int(member.keys[0])
            self.enter(member)
            self.members[id(destination)] = member

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        if not self.owners:
            return
        hashed = routing_key if self.by_key_only else self.hashed_octets(properties)
        member = self.owners[hash_octets(hashed) >> SLOT_SHIFT]
        found.append(member.destination)

    def hashed_octets(self, properties):
        if properties is None:
            return b""
        if self.hash_header is not None:
            return octets_of(properties.headers().get(self.hash_header))
        return octets_of(properties.fields().get(self.hash_property))

    def salt_for(self, name):
        """The lowest number not taken by a member of this name; 0 unless there is one."""
        taken = {member.salt for member in self.members.values() if member.name == name}
        salt = 0
        while salt in taken:
            salt += 1
        return salt

    def enter(self, member):
        """Give the newcomer the slots it wins from their owners."""
        if not self.owners:
            self.owners = [member] * SLOT_COUNT
            return 0
        for slot in range(SLOT_COUNT):
            owner = self.owners[slot]
            limit = score_below(owner, slot, 1e300)
            if score_below(member, slot, limit) < limit:
                self.owners[slot] = member
        return 0

    def leave(self, member):
        """Give the slots of one who is no longer among the members to the best of those who stay."""
        others = list(self.members.values())
        if not others:
            self.owners = []
            return 0
        for slot in range(SLOT_COUNT):
            if self.owners[slot] is not member:
                continue
            best = None
            best_score = 1e300
            for other in others:
                score = score_below(other, slot, best_score)
                if score < best_score:
                    best = other
                    best_score = score
            self.owners[slot] = best
        return 0


class OrderedMatcher(Matcher):
    """Bindings in a fixed order, whenever they came: a sum over the routing key says which one a message goes to.

    A subclass says what the order goes by, and does the sum. As in RabbitMQ a destination bound under two keys counts
    twice, and any change moves most keys."""

    if not cython.compiled:
        __slots__ = ("destinations", "order")

    def __init__(self) -> None:
        Matcher.__init__(self)
        self.by_key_only = True
        self.first_key_only = True
        self.order: list[tuple[Any, ...]] = []
        self.destinations: list[object] = []

    def place(self, key: bytes, arguments: dict[str, Any], destination: Any) -> tuple[Any, ...]:
        """What the binding is sorted by."""
        raise NotImplementedError

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        place = self.place(key, arguments, destination)
        at = bisect_right(self.order, place)
        self.order.insert(at, place)
        self.destinations.insert(at, destination)
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        place = self.place(key, arguments, destination)
        at = bisect_left(self.order, place)
        while at < len(self.order) and self.order[at] == place:
            if self.destinations[at] is destination:
                del self.order[at]
                del self.destinations[at]
                self.count -= 1
                return
            at += 1
        raise KeyError(key)


class ModulusHashMatcher(OrderedMatcher):
    """x-modulus-hash: the hash of the routing key modulo the number of bindings picks one, in order of name."""

    if not cython.compiled:
        __slots__ = ()

    def place(self, key: bytes, arguments: dict[str, Any], destination: Any) -> tuple[Any, ...]:
        return (name_of(destination), key)

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        size = len(self.destinations)
        if size > 0:
            found.append(self.destinations[hash_octets(routing_key) % size])


class RandomMatcher(Matcher):
    """x-random: one binding by chance, whatever the key. A destination bound twice has two chances."""

    if not cython.compiled:
        __slots__ = ("destinations", "pick")

    def __init__(self, pick: Callable[[int], int]) -> None:
        Matcher.__init__(self)
        self.by_key_only = False
        self.first_key_only = True
        self.pick = pick
        self.destinations: list[object] = []

    def add(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        self.destinations.append(destination)
        self.count += 1

    def remove(self, key: bytes, arguments: dict[str, Any], destination: object) -> None:
        discard_one(self.destinations, destination)
        self.count -= 1

    def collect(self, routing_key: bytes, properties: Any, found: list[object]) -> None:
        size = len(self.destinations)
        if size == 0:
            return
        at = 0 if size == 1 else self.pick(size)
        # The core indexes unchecked, so a crooked die is caught here.
        assert 0 <= at < size, "pick(n) must give a number from 0 to n - 1"
        found.append(self.destinations[at])
