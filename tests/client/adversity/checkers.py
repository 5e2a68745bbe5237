"""What a ledger must not show: lost, phantom or damaged messages, wrong order, duplicates, waits beyond their deadline.

Each checker is a function from a ledger to findings in words. What was not confirmed may be there or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from tests.client.adversity.ledger import Ledger, MessageId

# Beyond a deadline and the loop's own lag: timers of several layers, one after another.
SLACK_S: Final = 1.0
_SHOWN: Final = 6


def lost(ledger: Ledger) -> list[str]:
    """Confirmed, and never worked on to the end."""
    return [
        f"lost: {message} to {ledger.attempts[message].queue} was confirmed, and nobody worked on it"
        for message in ledger.confirmed
        if message not in ledger.processed and message not in ledger.parked
    ]


def phantoms(ledger: Ledger) -> list[str]:
    """Bodies that are not what was sent, and messages that nobody sent there."""
    findings = [f"damaged: {description}" for description in ledger.damaged]
    for sighting in ledger.sightings:
        attempt = ledger.attempts.get(sighting.message)
        if attempt is None or attempt.queue != sighting.queue:
            findings.append(f"phantom: {sighting.queue} gave {sighting.message}, which was not published to it")
    return findings


def out_of_order(ledger: Ledger) -> list[str]:
    """Of what was sent once and delivered once, each consumer sees each producer's messages in their order. A message
    that was sent again, or delivered again, may have been overtaken."""
    newest: dict[tuple[str, str, str], int] = {}
    findings = []
    for queue, consumer, message, redelivered, was_retried in ledger.sightings:
        attempt = ledger.attempts.get(message)
        if redelivered or was_retried or attempt is None or attempt.sent_count != 1:
            continue
        view = (queue, consumer, message.producer)
        if message.sequence < newest.get(view, -1):
            findings.append(f"out of order: {queue} gave {consumer} {message} after {newest[view]}")
        newest[view] = max(message.sequence, newest.get(view, -1))
    return findings


def late(ledger: Ledger) -> list[str]:
    """Waits that did not end by their deadline."""
    slack_s = SLACK_S + 2 * ledger.lag_s
    return [
        f"{'hung' if wait.hung else 'late'}: {wait.what} took {wait.took_s:.2f} s, not {wait.deadline_s:g} s"
        for wait in ledger.waits
        if wait.hung or wait.took_s > wait.deadline_s + slack_s
    ]


def twice(ledger: Ledger, drained: Sequence[MessageId], queue: str) -> list[str]:
    """A queue that takes each message once, emptied when all was over: confirmed ones are in it once, others at most
    once."""
    counts = Counter(drained)
    findings = [f"twice: {queue} had {message} {count} times" for message, count in counts.items() if count > 1]
    findings += [
        f"lost: {message} to {queue} was confirmed, and is not in it"
        for message in ledger.confirmed
        if ledger.attempts[message].queue == queue and message not in counts
    ]
    return findings


def findings(ledger: Ledger) -> list[str]:
    """Everything that is wrong."""
    return [
        *lost(ledger),
        *phantoms(ledger),
        *out_of_order(ledger),
        *late(ledger),
        *(f"surprise: {text}" for text in ledger.surprises),
        *(f"wrong answer: {text}" for text in ledger.wrong_answers),
    ]


def summary(ledger: Ledger) -> str:
    return (
        f"{len(ledger.attempts)} attempted, {len(ledger.confirmed)} confirmed, {len(ledger.sightings)} seen, "
        f"{len(ledger.processed)} processed, {ledger.answers_total} answers, {ledger.waits_total} waits, "
        f"lag {ledger.lag_s:.2f} s"
    )


def shortened(everything: Iterable[str]) -> str:
    """A few findings of each kind, and how many there are."""
    kinds: dict[str, list[str]] = {}
    for finding in everything:
        kinds.setdefault(finding.partition(":")[0], []).append(finding)
    return "\n".join(line for kind, found in kinds.items() for line in [f"{len(found)} x {kind}", *found[:_SHOWN]])


def check(ledger: Ledger, also: Iterable[str] = ()) -> None:
    """Fails with the findings, if there are any."""
    wrong = [*findings(ledger), *also]
    assert not wrong, f"{summary(ledger)}\n{shortened(wrong)}"
