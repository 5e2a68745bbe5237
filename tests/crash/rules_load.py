"""The load on queues with rules: dead letters, limits, expiry, delays, retries, priorities and deduplication at once.

Every publisher has one purpose and a number of its own, so that a message says by its id what must become of it. Queues
that only collect have no consumer before the drain: what is there then was put there once, or twice."""

import random
import threading
import time
from enum import IntEnum
from typing import Final

from tests.conformance.amqp_codec import Value, encode_properties
from tests.crash.client import Address, Confirm, CrashClient, Delivery, connected
from tests.crash.consumer import Consumer, Manners
from tests.crash.history import History, Kind
from tests.crash.load import Crew
from tests.crash.messages import MessageId
from tests.crash.publisher import Publisher

# Of all publishers together.
RATE: Final = 2400.0
DELAY_MS_MIN, DELAY_MS_MAX = 200, 3000
RETRIES: Final = 2
PRIORITY_MAX: Final = 5
_QUIET_S: Final = 1.0
_QUIET_S_MAX: Final = 60.0
_LATER: Final = "rules.later"
_ONCE: Final = "rules.once"


class Purpose(IntEnum):
    """What a publisher's messages are for; also its number."""

    WORK = 0
    EXPIRED = 1
    SHORT = 2
    DELAYED = 3
    LATER = 4
    RETRIED = 5
    LEVELS = 6
    ONCE_IN_QUEUE = 7
    ONCE_BY_EXCHANGE = 8
    ONCE_CONSUMED = 9


# Where a message of each purpose may be, in the order in which it gets there.
QUEUES: Final[dict[Purpose, tuple[str, ...]]] = {
    Purpose.WORK: ("rules.work", "rules.work.dead"),
    Purpose.EXPIRED: ("rules.expired", "rules.expired.dead"),
    Purpose.SHORT: ("rules.short", "rules.short.dead"),
    Purpose.DELAYED: ("rules.delayed",),
    Purpose.LATER: ("rules.later.queue",),
    Purpose.RETRIED: ("rules.retried", "rules.parked"),
    Purpose.LEVELS: ("rules.levels", "rules.levels.dead"),
    Purpose.ONCE_IN_QUEUE: ("rules.once.queue",),
    Purpose.ONCE_BY_EXCHANGE: ("rules.once.routed",),
    Purpose.ONCE_CONSUMED: ("rules.once.consumed",),
}
ALL_QUEUES: Final = tuple(queue for queues in QUEUES.values() for queue in queues)
_DEDUPLICATED: Final[dict[str, Value]] = {"x-message-deduplication": True, "x-cache-size": 1_000_000}
_ARGUMENTS: Final[dict[Purpose, dict[str, Value]]] = {
    Purpose.WORK: {},
    Purpose.EXPIRED: {"x-message-ttl": 150},
    Purpose.SHORT: {"x-max-length": 100},
    Purpose.RETRIED: {"x-retry-delays": "100ms, 200ms", "x-parking-lot": "rules.parked"},
    Purpose.LEVELS: {"x-message-ttl": 1500, "x-max-length": 300, "x-max-priority": PRIORITY_MAX},
    Purpose.ONCE_IN_QUEUE: _DEDUPLICATED,
    Purpose.ONCE_CONSUMED: _DEDUPLICATED,
}
ADDRESSES: Final[dict[Purpose, Address]] = {purpose: Address("", queues[0]) for purpose, queues in QUEUES.items()} | {
    Purpose.LATER: Address(_LATER, "key"),
    Purpose.ONCE_BY_EXCHANGE: Address(_ONCE, ""),
}


def declare_rules(port: int) -> None:
    with connected(port) as client:
        once: dict[str, Value] = {"x-cache-size": 1_000_000}
        later: dict[str, Value] = {"x-delayed-type": "direct"}
        declared = (_ONCE, "x-message-deduplication", once), (_LATER, "x-delayed-message", later)
        for exchange, kind, arguments in declared:
            client.call(1, "exchange.declare", exchange=exchange, type=kind, durable=True, arguments=arguments)
        for purpose, (queue, *ends) in QUEUES.items():
            arguments = dict(_ARGUMENTS.get(purpose, {}))
            for end in ends:
                client.call(1, "queue.declare", queue=end, durable=True)
                if purpose is not Purpose.RETRIED:
                    arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": end}
            client.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        client.call(1, "queue.bind", queue=QUEUES[Purpose.LATER][0], exchange=_LATER, routing_key="key")
        client.call(1, "queue.bind", queue=QUEUES[Purpose.ONCE_BY_EXCHANGE][0], exchange=_ONCE)
        client.leave()


class RulesHistory(History):
    """And what only these publishers know."""

    def __init__(self) -> None:
        super().__init__(sightings=[])
        # When a delayed message was sent, by the wall clock, and for how many milliseconds; the last time, if twice.
        self.delays: dict[MessageId, tuple[float, int]] = {}
        # The life in which a message was confirmed for the first time.
        self.confirmed_in: dict[MessageId, int] = {}
        # How many messages were sent again although they were confirmed, and confirmed again.
        self.repeated_count = 0
        # When each life ended, by the wall clock.
        self.deaths: list[float] = []


def once_properties(message: MessageId) -> bytes:
    return encode_properties({"delivery_mode": 2, "message_id": f"{message.publisher}-{message.sequence}"})


class RulesPublisher(Publisher):
    """One purpose."""

    burst_max = 30

    def __init__(self, purpose: Purpose, rate: float, history: RulesHistory, seed: int) -> None:
        super().__init__(int(purpose), ADDRESSES[purpose], QUEUES[purpose], rate, history, seed)
        self.purpose = purpose
        self.told = history

    def _properties(self, message: MessageId) -> bytes | None:
        if self.purpose in (Purpose.DELAYED, Purpose.LATER):
            delay_ms = self.dice.randint(DELAY_MS_MIN, DELAY_MS_MAX)
            self.told.delays[message] = (time.time(), delay_ms)
            return encode_properties({"delivery_mode": 2, "headers": {"x-delay": delay_ms}})
        if self.purpose is Purpose.LEVELS:
            return encode_properties({"delivery_mode": 2, "priority": priority_of(message)})
        return None


class Repeater(RulesPublisher):
    """Sends what was not confirmed again when it is back, and now and then something that was."""

    def __init__(self, purpose: Purpose, rate: float, history: RulesHistory, seed: int) -> None:
        super().__init__(purpose, rate, history, seed)
        # Sequences whose first confirm came, for a second time under way.
        self.repeated: set[int] = set()
        self.known: list[int] = []

    def _properties(self, message: MessageId) -> bytes | None:
        return once_properties(message)

    def _resume(self, client: CrashClient, unconfirmed: list[int]) -> None:
        self.repeated.clear()
        if unconfirmed:
            self._send(client, unconfirmed)

    def _send_burst(self, client: CrashClient) -> int:
        again = self.dice.sample(self.known[-200:], min(len(self.known), 3))
        again += self.dice.sample(self.known, min(len(self.known), 2))
        self.repeated.update(again)
        if again:
            self._send(client, again)
        return super()._send_burst(client) + len(again)

    def _confirm(self, confirm: Confirm) -> None:
        before = set(self.waiting.values())
        super()._confirm(confirm)
        assert confirm.positive, "a duplicate was refused"
        for sequence in before - set(self.waiting.values()):
            message = MessageId(self.number, sequence)
            if sequence in self.repeated and message in self.told.confirmed_in:
                self.told.repeated_count += 1
                self.repeated.discard(sequence)
            if self.told.confirmed_in.setdefault(message, self.told.life) == self.told.life:
                self.known.append(sequence)


class Judge(Consumer):
    """Rejects some of what it gets, for good; what it is, is in the message's id, so that it never changes its mind."""

    def __init__(self, name: str, queue: str, rejects: float, history: History, pause_s: float = 0.0) -> None:
        super().__init__(name, queue, Manners.ACK_SINGLE, history, 0)
        self.rejects = rejects
        self.pause_s = pause_s
        self.prefetch = 20 if pause_s else 100

    def _settle(self, client: CrashClient, delivery: Delivery, message: MessageId) -> None:
        if self.pause_s:
            time.sleep(self.pause_s)
        if is_rejected(message, self.rejects):
            self._write_down(Kind.REJECTED, message)
            client.reject(delivery.tag)
        else:
            super()._settle(client, delivery, message)


def is_rejected(message: MessageId, share: float) -> bool:
    return random.Random(f"{message.publisher} {message.sequence}").random() < share


def priority_of(message: MessageId) -> int:
    return message.sequence * 7 % (PRIORITY_MAX + 1)


class RulesLoad(Crew):
    def __init__(self, port: int, history: RulesHistory, seed: int = 0) -> None:
        each = RATE / len(Purpose)
        publishers: list[Publisher] = [
            (Repeater if purpose.name.startswith("ONCE") else RulesPublisher)(purpose, each, history, seed)
            for purpose in Purpose
        ]
        consumers: list[Consumer] = [
            Judge("worker", QUEUES[Purpose.WORK][0], 0.5, history),
            Judge("delayed", QUEUES[Purpose.DELAYED][0], 0.0, history),
            Judge("later", QUEUES[Purpose.LATER][0], 0.0, history),
            Judge("retried", QUEUES[Purpose.RETRIED][0], 1.0, history),
            Judge("levels", QUEUES[Purpose.LEVELS][0], 0.0, history, pause_s=0.005),
            Judge("once", QUEUES[Purpose.ONCE_CONSUMED][0], 0.0, history),
        ]
        super().__init__(port, history, publishers, consumers)

    def wait_until_quiet(self) -> None:
        """After the publishers: until nothing was delivered for longer than any retry takes, and no delay is left."""
        assert isinstance(self.history, RulesHistory)
        begun = time.monotonic()
        count = -1
        due = max((sent + ms / 1000 for sent, ms in self.history.delays.values()), default=0.0)
        while count != len(self.history.events) or time.time() < due + 0.1:
            assert time.monotonic() - begun < _QUIET_S_MAX, "deliveries do not come to an end"
            count = len(self.history.events)
            threading.Event().wait(_QUIET_S)
