"""What a history must not show: lost, phantom or damaged messages, wrong order, silent duplicates, undone acks.

Each checker is a function from a history to a list of findings in words. Unconfirmed messages may be there or not; a
message may come twice, but says so."""

from collections.abc import Iterable
from typing import Final

from tests.crash.history import DRAIN, Event, History, Kind
from tests.crash.messages import MessageId

# A finding per message would bury the reader when everything is lost.
_FINDINGS_SHOWN: Final = 8


def lost(history: History) -> list[str]:
    """Confirmed messages that no consumer ever got, for each queue that they were routed to."""
    seen = {(event.queue, event.message) for event in history.of_kind(Kind.DELIVERED)}
    return [
        f"lost: {queue} never gave message {sequence} of publisher {number}, which was confirmed"
        for number, published in sorted(history.published.items())
        for queue in published.queues
        for sequence in sorted(published.confirmed)
        if (queue, MessageId(number, sequence)) not in seen
    ]


def phantoms(history: History) -> list[str]:
    """Messages that nobody sent, or not to this queue, and bodies that are not what was sent."""
    findings = [f"damaged: {description}" for description in history.damaged]
    for event in history.of_kind(Kind.DELIVERED):
        published = history.published.get(event.message.publisher)
        if published is None or event.queue not in published.queues or not event.message.sequence < published.attempted:
            findings.append(f"phantom: {event.queue} gave {event.message}, which was not published to it")
    return findings


def out_of_order(history: History) -> list[str]:
    """First deliveries that overtook an earlier message of the same publisher in the same queue.

    A queue with one consumer is judged over all lives and with all that was seen for the first time, because what was
    sent but not read comes again in its place. Several consumers of a queue see only their share of it, and what one
    of them did not read may reach another late; there only what claims to be fresh is judged, consumer by consumer."""
    deliveries = _by_life(history, Kind.DELIVERED)
    consumers: dict[str, set[str]] = {}
    for event in deliveries:
        consumers.setdefault(event.queue, set()).update({event.consumer} - {DRAIN})
    seen: set[tuple[str, MessageId]] = set()
    newest: dict[tuple[str, str, int, int], int] = {}
    findings = []
    for event in deliveries:
        alone = len(consumers[event.queue]) <= 1
        is_first = (event.queue, event.message) not in seen
        seen.add((event.queue, event.message))
        if not is_first or (event.redelivered and not alone):
            continue
        publisher, sequence = event.message
        view = (event.queue, "", 0, publisher) if alone else (event.queue, event.consumer, event.life, publisher)
        if sequence < newest.get(view, -1):
            findings.append(
                f"out of order: {event.queue} gave {event.consumer} message {sequence} of publisher {publisher} "
                f"after {newest[view]}, in life {event.life}"
            )
        newest[view] = max(sequence, newest.get(view, -1))
    return findings


def unflagged(history: History, over_lives: bool) -> list[str]:
    """Messages that came more than once without saying so. After a power loss only within a life: the note may be lost.

    Which delivery was the first is not asked: two consumers may write theirs down in another order than they came."""
    findings = []
    silent: dict[tuple[str, MessageId, int], Event] = {}
    for event in _by_life(history, Kind.DELIVERED):
        if event.redelivered:
            continue
        before = silent.setdefault((event.queue, event.message, -1 if over_lives else event.life), event)
        if before is not event:
            findings.append(
                f"unflagged: {event.queue} gave {event.message} to {before.consumer} in life {before.life} and to "
                f"{event.consumer} in life {event.life}, not marked as redelivered"
            )
    return findings


def resurrected(history: History) -> list[str]:
    """Messages that came again in the life in which they were acked; only a crash or a cut connection undoes an ack.

    An ack of a connection that was cut later is certain as far as that connection goes, not for the others."""
    cut = {(event.life, event.consumer) for event in history.of_kind(Kind.CUT)}
    acked: dict[tuple[int, str, MessageId], str] = {}
    findings = []
    for event in history.events:
        key = (event.life, event.queue, event.message)
        if event.kind is Kind.ACKED:
            acked[key] = event.consumer
        elif event.kind is Kind.CUT:
            gone = (event.life, event.consumer)
            acked = {key: consumer for key, consumer in acked.items() if (key[0], consumer) != gone}
        elif event.kind is Kind.DELIVERED and key in acked and not event.left_behind:
            if acked[key] == event.consumer or (event.life, acked[key]) not in cut:
                findings.append(f"resurrected: {event.queue} gave {event.message} again after it was acked")
    return findings


def _by_life(history: History, kind: Kind) -> list[Event]:
    """A slow thread may note what it got in a life when others are already in the next."""
    return sorted(history.of_kind(kind), key=lambda event: event.life)


def findings(history: History, power_loss: bool = False) -> list[str]:
    """Everything that is wrong with this history."""
    return [
        *lost(history),
        *phantoms(history),
        *out_of_order(history),
        *unflagged(history, over_lives=not power_loss),
        *resurrected(history),
    ]


def summary(history: History) -> str:
    delivered = sum(1 for _ in history.of_kind(Kind.DELIVERED))
    acked = sum(1 for _ in history.of_kind(Kind.ACKED))
    return (
        f"{history.attempted_count} attempted, {history.confirmed_count} confirmed, {delivered} delivered, "
        f"{acked} acked in {history.life + 1} lives"
    )


def shortened(everything: Iterable[str]) -> str:
    """A few findings of each kind, and how many there are."""
    kinds: dict[str, list[str]] = {}
    for finding in everything:
        kinds.setdefault(finding.partition(":")[0], []).append(finding)
    return "\n".join(
        line for kind, found in kinds.items() for line in [f"{len(found)} x {kind}", *found[:_FINDINGS_SHOWN]]
    )


def check(history: History, power_loss: bool = False) -> None:
    """Fails with the findings, if there are any."""
    wrong = findings(history, power_loss)
    assert not wrong, f"{summary(history)}\n{shortened(wrong)}"
