"""What a history on queues with rules must not show: a message in two places or in none, a move for a wrong reason, one
that came before its time, a duplicate that was taken.

A message moves from one queue to another in one batch of the log, so a crash finds it in one of them. Nobody consumes
from the queues where they end before the drain; so each was put there once, or twice, and the drain tells. An ack of
the last moment may be undone by a crash; then the message is where an unacked one would be."""

from collections import Counter
from typing import Final

from tests.conformance.amqp_codec import decode_properties
from tests.crash import checkers
from tests.crash.history import DRAIN, Kind, Sighting
from tests.crash.messages import MessageId
from tests.crash.rules_load import QUEUES, RETRIES, Purpose, RulesHistory, priority_of

# Acks go to disk within milliseconds, on a busy disk within a sync or two.
_UNDONE_S_MAX: Final = 2.0
# The broker's clock counts milliseconds.
_EARLY_S_MAX: Final = 0.002
# Where messages keep the order in which they were published, each priority by itself.
_IN_ORDER: Final = (Purpose.WORK, Purpose.EXPIRED, Purpose.SHORT, Purpose.ONCE_IN_QUEUE)
_REASONS: Final = {
    QUEUES[Purpose.WORK][1]: {"rejected"},
    QUEUES[Purpose.EXPIRED][1]: {"expired"},
    QUEUES[Purpose.SHORT][1]: {"maxlen"},
    QUEUES[Purpose.RETRIED][1]: {"rejected"},
    QUEUES[Purpose.LEVELS][1]: {"expired", "maxlen"},
}


def drained(history: RulesHistory) -> list[Sighting]:
    assert history.sightings is not None
    return [seen for seen in history.sightings if seen.consumer == DRAIN]


def lost(history: RulesHistory) -> list[str]:
    """Confirmed, and neither acked by a consumer nor anywhere at the end."""
    found = {seen.message for seen in drained(history)}
    found |= {event.message for event in history.of_kind(Kind.ACKED)}
    return [
        f"lost: message {sequence} of {Purpose(number).name}, which was confirmed, is nowhere"
        for number, published in history.published.items()
        for sequence in sorted(published.confirmed)
        if MessageId(number, sequence) not in found
    ]


def twice(history: RulesHistory) -> list[str]:
    """More than one of the same at the end, in one queue or in two."""
    places: dict[MessageId, Counter[str]] = {}
    for seen in drained(history):
        places.setdefault(seen.message, Counter())[seen.queue] += 1
    return [
        f"twice: {message} of {Purpose(message.publisher).name} is in {dict(queues)}"
        for message, queues in places.items()
        if queues.total() > 1
    ]


def undone(history: RulesHistory, power_loss: bool) -> list[str]:
    """Acked or rejected long before the end of that life, and at the end in a queue all the same; or acked, and in the
    queue of the rejected."""
    at_end = {seen.message: seen for seen in drained(history)}
    when = {(seen.life, seen.message): seen.at for seen in history.sightings or ()}
    findings = []
    for event in history.events:
        seen = at_end.get(event.message)
        if seen is None or event.consumer == DRAIN or event.kind not in (Kind.ACKED, Kind.REJECTED):
            continue
        if event.kind is Kind.REJECTED and seen.queue != event.queue:
            continue
        if event.kind is Kind.ACKED and seen.queue == QUEUES[Purpose.WORK][1]:
            findings.append(f"undone: {event.message} was never rejected, and is in {seen.queue}")
        elif event.life == history.life:
            findings.append(f"undone: {event.message} was {event.kind.value} in the last life and is in {seen.queue}")
        elif not power_loss and history.deaths[event.life] - when[event.life, event.message] > _UNDONE_S_MAX:
            findings.append(f"undone: {event.message} was {event.kind.value} long before life {event.life} ended")
    return findings


def misplaced(history: RulesHistory) -> list[str]:
    """Phantoms, bodies that nobody sent, and reasons that a queue of the dead does not collect."""
    findings = checkers.phantoms(history)
    for seen in drained(history):
        expected = _REASONS.get(seen.queue)
        if expected is None:
            continue
        headers = decode_properties(seen.properties_raw)["headers"]
        deaths = headers["x-death"]
        source = QUEUES[Purpose(seen.message.publisher)][0]
        if deaths[0]["queue"] != source or deaths[0]["reason"] not in expected or deaths[0]["count"] != 1:
            findings.append(f"misplaced: {seen.message} is in {seen.queue} with {deaths}")
        if seen.queue == QUEUES[Purpose.RETRIED][1] and headers.get("x-retry-count") != RETRIES:
            findings.append(f"misplaced: {seen.message} was parked with {headers}")
    return findings


def early(history: RulesHistory) -> list[str]:
    """Delayed messages that came before their time, or that do not say so."""
    findings = []
    for seen in history.sightings or ():
        if seen.message not in history.delays:
            continue
        sent, delay_ms = history.delays[seen.message]
        if seen.at < sent + delay_ms / 1000 - _EARLY_S_MAX:
            findings.append(f"early: {seen.message} came {sent + delay_ms / 1000 - seen.at:.3f} s too early")
        if decode_properties(seen.properties_raw)["headers"] != {"x-delay": -delay_ms}:
            findings.append(f"early: {seen.message} came with {decode_properties(seen.properties_raw)}")
    return findings


def out_of_order(history: RulesHistory) -> list[str]:
    """What was seen for the first time behind a later one of its publisher, queue and priority."""
    newest: dict[tuple[str, int], int] = {}
    seen_before: set[tuple[str, MessageId]] = set()
    findings = []
    for seen in sorted(history.sightings or (), key=lambda it: it.life):
        purpose = Purpose(seen.message.publisher)
        levels = purpose is Purpose.LEVELS and seen.queue == QUEUES[purpose][0]
        if (seen.queue, seen.message) in seen_before or not (purpose in _IN_ORDER or levels):
            continue
        seen_before.add((seen.queue, seen.message))
        view = (seen.queue, priority_of(seen.message) if levels else 0)
        if seen.message.sequence < newest.get(view, -1):
            findings.append(f"out of order: {seen.queue} gave {seen.message} after {newest[view]}, in life {seen.life}")
        newest[view] = max(seen.message.sequence, newest.get(view, -1))
    return findings


def unflagged(history: RulesHistory, power_loss: bool) -> list[str]:
    """Delayed messages that came more than once without saying so; after a power loss only within a life."""
    silent: dict[tuple[MessageId, int], Sighting] = {}
    findings = []
    for seen in sorted(history.sightings or (), key=lambda it: it.life):
        if seen.redelivered or seen.message not in history.delays:
            continue
        before = silent.setdefault((seen.message, seen.life if power_loss else -1), seen)
        if before is not seen:
            findings.append(f"unflagged: {seen.message} came in life {before.life} and, as if new, in {seen.life}")
    return findings


def taken_again(history: RulesHistory) -> list[str]:
    """Duplicates that were taken although the first was confirmed: they came unmarked a second time."""
    silent: dict[MessageId, list[int]] = {}
    for seen in history.sightings or ():
        if seen.message.publisher == Purpose.ONCE_CONSUMED and not seen.redelivered:
            silent.setdefault(seen.message, []).append(seen.life)
    return [
        f"taken again: {message} was confirmed in life {history.confirmed_in[message]} and came in lives {lives}"
        for message, lives in silent.items()
        if len(lives) > 1 and (len(set(lives)) < len(lives) or max(lives) > history.confirmed_in.get(message, 1 << 30))
    ]


def findings(history: RulesHistory, power_loss: bool = False) -> list[str]:
    return [
        *lost(history),
        *twice(history),
        *undone(history, power_loss),
        *misplaced(history),
        *early(history),
        *out_of_order(history),
        *unflagged(history, power_loss),
        *taken_again(history),
    ]


def check(history: RulesHistory, power_loss: bool = False) -> None:
    wrong = findings(history, power_loss)
    assert not wrong, f"{checkers.summary(history)}\n{checkers.shortened(wrong)}"
