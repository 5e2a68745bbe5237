"""A publisher of the load: bursts of persistent messages with confirms, through every death of the broker.

Writes down what it attempted before it sends, and as confirmed only what it has read an ack for. It never sends a
message twice: what was not confirmed when the connection died is neither there nor missing."""

import random
import threading
import time
from contextlib import suppress
from typing import Final

from tests.crash.client import (
    Address,
    Closed,
    Confirm,
    ConnectionLost,
    CrashClient,
    Incoming,
    Notice,
    Refused,
    connected,
)
from tests.crash.history import History, Published
from tests.crash.messages import MessageId, body_of, random_size

_WINDOW: Final = 600
_RECONNECT_S: Final = 0.02


class Publisher:
    """Publishes to one exchange at a bounded rate until told to stop; then waits for the confirms that are due."""

    burst_max = 80

    def __init__(
        self, number: int, address: Address, queues: tuple[str, ...], rate: float, history: History, seed: int
    ) -> None:
        self.number = number
        self.address = address
        self.rate = rate
        self.history = history
        self.published = history.published.setdefault(number, Published(queues))
        self.dice = random.Random(seed * 1000 + number)
        self.stopping = threading.Event()
        # Sequences that wait for a confirm, by their delivery tag on the present connection, oldest first.
        self.waiting: dict[int, int] = {}
        self.next_tag = 1
        self.blocked = False
        self.is_connected = False

    def run(self, port: int) -> None:
        while True:
            try:
                self._connection(port)
            except Refused as refusal:
                self.history.refusals.append(f"publisher {self.number}: {refusal}")
            except ConnectionLost:
                pass
            self.is_connected = False
            if self.stopping.wait(_RECONNECT_S):
                return

    def _connection(self, port: int) -> None:
        """From one login to the end of the connection, whoever ends it."""
        with connected(port) as client:
            client.call(1, "confirm.select")
            unconfirmed = list(self.waiting.values())
            self.waiting, self.next_tag, self.blocked = {}, 1, False
            self.is_connected = True
            try:
                self._resume(client, unconfirmed)
                alive = self._publish(client)
            except ConnectionLost:
                self._read_the_rest(client)
                return
            if alive:
                self._note(client.leave())
            else:
                client.await_end()

    def _resume(self, client: CrashClient, unconfirmed: list[int]) -> None:
        """What becomes of the sequences that the last connection left without a confirm: nothing."""

    def _properties(self, message: MessageId) -> bytes | None:
        """What this message has beyond being persistent, encoded; asked right before it is sent."""
        return None

    def _publish(self, client: CrashClient) -> bool:
        """Bursts until the test wants no more; whether the connection is still open then."""
        due = time.monotonic()
        while not (self.stopping.is_set() and not self.waiting):
            if not (self.stopping.is_set() or self.blocked or len(self.waiting) >= _WINDOW):
                if time.monotonic() >= due:
                    count = self._send_burst(client)
                    # Not made up for later: after a stall of the broker the rate stays what it was.
                    due = max(due, time.monotonic() - 0.05) + count / self.rate
            wait_s = 0.1 if len(self.waiting) >= _WINDOW else min(0.1, max(0.0, due - time.monotonic()))
            if not self._note(client.incoming(wait_s)):
                return False
        return True

    def _send_burst(self, client: CrashClient) -> int:
        count = self.dice.randint(1, self.burst_max)
        first = self.published.attempted
        self.published.attempted += count
        self._send(client, list(range(first, first + count)))
        return count

    def _send(self, client: CrashClient, sequences: list[int]) -> None:
        bodies, properties = [], []
        for sequence in sequences:
            message = MessageId(self.number, sequence)
            bodies.append(body_of(message, random_size(self.dice)))
            properties.append(self._properties(message))
            self.waiting[self.next_tag] = sequence
            self.next_tag += 1
        client.publish_burst(self.address, bodies, properties)

    def _read_the_rest(self, client: CrashClient) -> None:
        """Sending failed or the end was reached; the confirms that arrived before it count all the same."""
        with suppress(*ConnectionLost):
            while self._note(client.incoming(0.0)):
                pass

    def _note(self, items: list[Incoming]) -> bool:
        """Writes down what came; False when the broker closed the connection or the channel."""
        for item in items:
            match item:
                case Confirm():
                    self._confirm(item)
                case Closed(reason):
                    self.history.refusals.append(f"publisher {self.number}: {reason}")
                    return False
                case Notice("connection.blocked"):
                    self.blocked = True
                    self.history.blocked_count += 1
                case Notice("connection.unblocked"):
                    self.blocked = False
                    self.history.unblocked_count += 1
        return True

    def _confirm(self, confirm: Confirm) -> None:
        tags = [confirm.tag]
        if confirm.multiple:
            tags = []
            for tag in self.waiting:
                if tag > confirm.tag:
                    break
                tags.append(tag)
        settled = self.published.confirmed if confirm.positive else self.published.nacked
        for tag in tags:
            settled.add(self.waiting.pop(tag))
