"""Publishes with confirms on one channel, and writes down what was attempted and what was confirmed."""

import time

from tests.crash.client import Address, Closed, Confirm, CrashClient, Delivery, Incoming
from tests.crash.enumeration.evidence import Evidence
from tests.crash.enumeration.topology import TARGETS
from tests.crash.history import Published
from tests.crash.messages import MessageId, body_of


class Unfinished(Exception):
    """Something did not come to its end; the text says how far it came."""


class Cut(Unfinished):
    """The broker closed the connection or the channel; the text is its reason."""


class Publishing:
    """The only one who publishes on this channel. What the channel delivers meanwhile is kept for its consumer."""

    def __init__(self, client: CrashClient, evidence: Evidence) -> None:
        client.call(1, "confirm.select")
        self._client = client
        self._evidence = evidence
        self._next_tag = 1
        # Publisher and sequence of what is not confirmed, by tag, oldest first.
        self._waiting: dict[int, MessageId] = {}
        self._delivered: list[Delivery] = []

    def send(self, number: int, count: int, size: int) -> None:
        """Publishes so many messages that nobody has published before."""
        exchange, key, queues = TARGETS[number]
        published = self._evidence.published.setdefault(number, Published(queues))
        messages = [MessageId(number, published.attempted + place) for place in range(count)]
        published.attempted += count
        for message in messages:
            self._waiting[self._next_tag] = message
            self._next_tag += 1
        self._client.publish_burst(Address(exchange, key), [body_of(message, size) for message in messages])

    def await_confirms(self, wait_s: float) -> None:
        """Returns when everything is confirmed; what comes later than this may be waited for again."""
        deadline = time.monotonic() + wait_s
        while self._waiting:
            if time.monotonic() > deadline:
                raise Unfinished(f"{len(self._waiting)} confirms did not come")
            for item in self._client.incoming(0.2):
                self.hear(item)

    def hear(self, item: Incoming) -> None:
        """Takes note of what came on the channel."""
        if isinstance(item, Confirm):
            self._note(item)
        elif isinstance(item, Delivery):
            self._delivered.append(item)
        elif isinstance(item, Closed):
            raise Cut(item.reason)

    def take_delivered(self) -> list[Delivery]:
        """What came for the consumer while confirms were waited for."""
        delivered, self._delivered = self._delivered, []
        return delivered

    def _note(self, confirm: Confirm) -> None:
        tags = [tag for tag in self._waiting if tag == confirm.tag or (confirm.multiple and tag < confirm.tag)]
        messages = [self._waiting.pop(tag) for tag in tags]
        if not confirm.positive:
            raise Unfinished(f"{len(messages)} messages were refused")
        for publisher, sequence in messages:
            self._evidence.published[publisher].confirmed.add(sequence)
