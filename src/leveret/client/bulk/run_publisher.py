"""Messages that are made already, published by the run and confirmed; and how far that may go where one of them is bad.

Messages come as a list with a hole (None) for each that could not be made, and an error for each hole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from leveret.client.errors import BatchFailed
from leveret.client.publishing.producer import Producer
from leveret.core.client.outgoing import Outgoing
from leveret.core.client.runs import find_untried

__all__ = ["RunPublisher"]

# So many exchanges with routing keys are tried one by one; it takes the time of a confirm each.
PLACES_MAX = 200


class RunPublisher:
    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        # Exchanges with routing keys that were published to, as they stand on the wire.
        self._tried: set[bytes] = set()

    async def publish(
        self,
        producer: Producer,
        messages: list[Outgoing | None],
        errors: Mapping[int, str],
        start: int = 0,
        end: int | None = None,
    ) -> list[tuple[int, str]]:
        """Publishes those from `start` to `end` that are messages and waits for their confirms. The others, and those
        that the broker did not take, as (place, why). Raises BatchFailed if not all could be sent."""
        end = len(messages) if end is None else end
        sent = messages if end - start == len(messages) else messages[start:end]
        places: Sequence[int] = range(start, end)
        failures: list[tuple[int, str]] = []
        if errors:
            failures = [(place, errors[place]) for place in places if place in errors]
            places = [place for place in places if place not in errors]
            sent = [messages[place] for place in places]
        try:
            # Without holes from here on.
            await producer.publish_made(sent, deadline_s=self._deadline_s)  # type: ignore[arg-type]
        except BatchFailed as error:
            if error.unsent_from is not None:
                raise
            failures += [(places[place], str(why)) for place, why in error.failures]
        return sorted(failures)

    async def publish_until(
        self, producer: Producer, messages: list[Outgoing | None], errors: Mapping[int, str]
    ) -> list[tuple[int, str]]:
        """The same up to the first that cannot be published; what comes behind it is not, as far as that can be
        known."""
        start = 0
        for end in self._parts(messages):
            failures = await self.publish(producer, messages, errors, start, end)
            if failures:
                return failures
            start = end
        return []

    def _parts(self, messages: list[Outgoing | None]) -> Iterator[int]:
        """Where to stop and wait: behind the first message to an exchange with a routing key, before the next such one,
        and behind one that is none. So a place that does not exist is found before anything behind it is published."""
        known = self._tried
        place = -1
        while (place := find_untried(messages, place + 1, known if len(known) < PLACES_MAX else None)) < len(messages):
            message = messages[place]
            if message is not None:
                known.add(message.address)
                if place:
                    yield place
            yield place + 1
        yield len(messages)
