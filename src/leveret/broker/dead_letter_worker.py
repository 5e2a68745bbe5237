"""Carries dead letters: from the queue they left to wherever that queue's rules send them.

A letter goes through its dead-letter exchange, back into its own queue after a delay (a retry), or to the parking lot.
Only when it is there is the original let go; both are in the same batch of the log, so a crash finds the message in
one of the two. Carried a bounded number at a time, because a rule that changes may set millions free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from leveret.broker.vhost import LiveVhost
from leveret.core.codec.message import Message, new_message
from leveret.core.codec.names import NAME_OCTETS_MAX, name_text
from leveret.core.codec.properties import Properties
from leveret.core.log.journal import Journal
from leveret.core.queue.contract import Queue
from leveret.core.queue.office import REASONS, DeadLetter, Office
from leveret.errors import SoftError
from leveret.queues.death import died, is_cycle
from leveret.runtime.log import get_logger

log = get_logger(__name__)

CARRIED_A_TURN = 256
# What those who go on with their work may do in a turn, and what one costs beside what it counts: units of
# core.observe.meter.
WORK_A_TURN = 50_000
WORKER_WORK = 500
# How soon it is tried again when the disk is behind.
CONGESTED_S = 0.005
RETRY_HEADER = "x-retry-count"
# When a message is tried again that could not be parked, if it has no delays of its own.
NO_LOT_MS = 60_000
REFUSED_LOTS_MAX = 1000
# Reasons for which a message is tried again, if its queue retries.
RETRIED = [number for number, reason in REASONS.items() if reason in ("rejected", "delivery_limit")]


class Worker(Protocol):
    """Whoever stopped in the middle of its work."""

    def go_on(self) -> None: ...


class Registry(Protocol):
    """What it needs of the broker."""

    vhosts: dict[str, LiveVhost]

    def tick(self) -> None:
        """Brings the office's clock up to date."""

    def declare_durable_queue(self, vhost: str, name: str) -> None:
        """Makes a durable queue of this name; raises SoftError if there may be none."""


def _body_of(message: Message) -> bytes:
    """A queue reads a body back from disk before it posts the letter."""
    assert message.body is not None
    return message.body


class DeadLetterWorker:
    def __init__(self, office: Office, journal: Journal | None, registry: Registry, wall: Callable[[], float]) -> None:
        self._office = office
        self._journal = journal
        self._registry = registry
        self._wall = wall
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.Handle | None = None
        self._kick: Callable[[], None] = lambda: None
        office.wake = self._schedule
        self.carried_total = 0
        self.retried_total = 0
        self.parked_total = 0
        # Parking lots that could not be made, how often; and which, of those that the log has named.
        self.lots_refused_total = 0
        self._refused_lots: set[tuple[str, bytes]] = set()
        # Letters whose exchange or queue was not there, that would have gone in circles, or that nobody took.
        self.unroutable_total = 0
        self.cycles_total = 0
        self.refused_total = 0
        # Letters that were sent somewhere else than back, by reason; whether anybody took them or not.
        self.dead_lettered_total = dict.fromkeys(REASONS, 0)

    def start(self, loop: asyncio.AbstractEventLoop, kick: Callable[[], None]) -> None:
        self._loop = loop
        self._kick = kick
        self._schedule()

    def stop(self) -> None:
        self._loop = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self) -> None:
        if self._loop is not None and self._handle is None:
            self._handle = self._loop.call_soon(self.run)

    @property
    def _is_disk_behind(self) -> bool:
        return self._journal is not None and bool(self._journal.congested)

    def run(self) -> None:
        """One turn's work."""
        self._handle = None
        if self._is_disk_behind and self._loop is not None:
            self._handle = self._loop.call_later(CONGESTED_S, self.run)
            return
        self._registry.tick()
        letters = self._office.take_letters()
        carried = 0
        # Each may be as large as a message can be.
        while carried < min(len(letters), CARRIED_A_TURN) and not self._is_disk_behind:
            self._carry_safely(letters[carried])
            carried += 1
        if len(letters) > carried:
            self._office.put_back(letters[carried:])
        self._go_on()
        if self._office.letters or self._office.unfinished:
            self._schedule()
        self._kick()

    def _go_on(self) -> None:
        """Each of those who stopped in the middle of their work once, but not longer than a turn may take."""
        meter = self._office.meter
        until = meter.spent + WORK_A_TURN
        workers = self._office.take_unfinished()
        for number, worker in enumerate(workers):
            if meter.spent >= until:
                self._office.put_back_unfinished(workers[number:])
                break
            meter.spent += WORKER_WORK
            self._go_on_safely(worker)

    def _go_on_safely(self, worker: Worker) -> None:
        try:
            worker.go_on()
        except Exception:
            # Whatever went wrong with one, the others go on.
            log.exception("a queue could not go on with its work")

    # ---- one letter

    def _carry_safely(self, letter: DeadLetter) -> None:
        try:
            self._carry(letter)
        except Exception:
            # It stays in the log as a message of its queue: the next start finds it there.
            log.exception("a dead letter could not be carried", queue=letter.queue.name)
            return
        letter.queue.letter_sent(letter)

    def _carry(self, letter: DeadLetter) -> None:
        queue = letter.queue
        vhost = self._registry.vhosts.get(queue.record.vhost)
        if vhost is None:
            return
        rules: Any = letter.rules
        if rules.retries and letter.reason in RETRIED and self._retry_or_park(letter, vhost):
            return
        if rules.dead_letter_exchange is None:
            self._office.lose(letter.reason)
            return
        self.dead_lettered_total[letter.reason] += 1
        exchange = vhost.exchanges.get(rules.dead_letter_exchange)
        if exchange is None:
            self.unroutable_total += 1
            return
        properties, keys = self._died(letter, rules.dead_letter_key)
        targets = vhost.router.resolve(exchange, keys, properties)
        # A declared dead-letter key may be longer than any message can carry.
        if not targets or len(keys[0]) > NAME_OCTETS_MAX:
            self.unroutable_total += 1
            return
        free = [target for target in targets if target.record is None or not is_cycle(properties, target.record.name)]
        self.cycles_total += len(targets) - len(free)
        self._deliver(new_message(exchange.name, keys[0], properties, _body_of(letter.message)), free)

    def _died(self, letter: DeadLetter, key: bytes | None) -> tuple[Properties, list[bytes]]:
        text = None if key is None else name_text(key)
        return died(letter.message, letter.queue.record.name, REASONS[letter.reason], text, int(self._wall()))

    def _deliver(self, message: Message, targets: list[Queue]) -> None:
        taken = self._office.deliver(message, targets)
        self.carried_total += taken
        self.refused_total += len(targets) - taken

    # ---- retries

    def _parking_lot(self, vhost: LiveVhost, name: bytes) -> Queue | None:
        """The queue, made if it is not there; None if it may not be made."""
        lot = vhost.queues.get(name)
        if lot is not None:
            return lot
        try:
            self._registry.declare_durable_queue(vhost.name, name_text(name))
        except SoftError as error:
            self.lots_refused_total += 1
            if (vhost.name, name) not in self._refused_lots:
                if len(self._refused_lots) >= REFUSED_LOTS_MAX:
                    self._refused_lots.clear()
                self._refused_lots.add((vhost.name, name))
                log.warning("a parking lot cannot be made", vhost=vhost.name, error=error.text)
            return None
        self._refused_lots.discard((vhost.name, name))
        return vhost.queues[name]

    def _retry_or_park(self, letter: DeadLetter, vhost: LiveVhost) -> bool:
        """Back into its queue after the delay of its turn, or to the parking lot after the last; false if there is
        none, and the letter goes the way of all others."""
        rules: Any = letter.rules
        message = letter.message
        headers = message.properties.headers()
        count = headers.get(RETRY_HEADER, 0)
        count = count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else 0
        if count < len(rules.retry_delays):
            if not letter.queue.deleted:
                properties = message.properties.replace({"headers": {**headers, RETRY_HEADER: count + 1}})
                again = new_message(message.exchange, message.routing_key, properties, _body_of(message))
                self._office.deliver_later(again, letter.queue, rules.retry_delays[count])
                self.retried_total += 1
            return True
        if rules.parking_lot is None:
            return False
        lot = self._parking_lot(vhost, rules.parking_lot)
        if lot is None:
            # It stays with its queue and is tried again, by consumers too: nothing is lost for want of a lot.
            again = new_message(message.exchange, message.routing_key, message.properties, _body_of(message))
            self._office.deliver_later(again, letter.queue, rules.retry_delays[-1] if rules.retry_delays else NO_LOT_MS)
            return True
        properties, keys = self._died(letter, rules.parking_lot)
        self._deliver(new_message(b"", keys[0], properties, _body_of(message)), [lot])
        self.parked_total += 1
        self.dead_lettered_total[letter.reason] += 1
        return True
