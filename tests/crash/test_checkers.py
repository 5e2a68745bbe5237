"""The checkers themselves, on made-up histories: good ones pass, and each kind of fault is seen."""

from tests.crash import checkers
from tests.crash.history import DRAIN, NO_MESSAGE, Event, History, Kind, Published
from tests.crash.messages import LARGE_BODY_BYTES, MessageId, body_of, id_of


def delivery(
    sequence: int, life: int = 0, consumer: str = "c1", redelivered: bool = False, queue: str = "q", publisher: int = 1
) -> Event:
    return Event(Kind.DELIVERED, life, queue, consumer, MessageId(publisher, sequence), redelivered)


def ack(sequence: int, life: int = 0) -> Event:
    return Event(Kind.ACKED, life, "q", "c1", MessageId(1, sequence))


def history(*events: Event, attempted: int = 5, confirmed: tuple[int, ...] = ()) -> History:
    return History({1: Published(("q",), attempted, set(confirmed))}, list(events))


def kinds(made_up: History, power_loss: bool = False) -> list[str]:
    return [finding.partition(":")[0] for finding in checkers.findings(made_up, power_loss)]


def test_a_good_history_passes() -> None:
    good = history(
        delivery(0),
        ack(0),
        delivery(1),
        delivery(1, life=1, redelivered=True),
        delivery(2, life=1),
        # 3 was not confirmed and may be gone, 4 was not and may be there.
        delivery(4, life=1),
        confirmed=(0, 1, 2),
    )
    checkers.check(good)


def test_a_lost_message_is_seen_in_each_queue() -> None:
    made_up = history(delivery(0), delivery(1), confirmed=(0, 1))
    made_up.published[1] = Published(("q", "r"), 5, {0, 1})
    made_up.events.append(delivery(1, queue="r"))
    assert checkers.lost(made_up) == ["lost: r never gave message 0 of publisher 1, which was confirmed"]


def test_an_unconfirmed_message_may_be_lost() -> None:
    assert kinds(history(delivery(0), attempted=3, confirmed=(0,))) == []


def test_phantoms_are_seen() -> None:
    assert kinds(history(delivery(4), attempted=5)) == []
    assert kinds(history(delivery(5), attempted=5)) == ["phantom"]
    assert kinds(history(delivery(0, publisher=2))) == ["phantom"]
    assert kinds(history(delivery(0, queue="other"))) == ["phantom"]


def test_a_damaged_body_is_seen() -> None:
    made_up = history()
    made_up.damaged.append("16 octets in q")
    assert kinds(made_up) == ["damaged"]


def test_wrong_order_is_seen_also_over_a_crash() -> None:
    assert kinds(history(delivery(1), delivery(0))) == ["out of order"]
    assert kinds(history(delivery(1), delivery(0, life=1))) == ["out of order"]
    # It came first in its place, but marked: a store that forgot who had it may mark everything.
    assert kinds(history(delivery(1, life=1, redelivered=True), delivery(0, life=1, redelivered=True))) == [
        "out of order"
    ]
    assert kinds(history(delivery(0), delivery(1), delivery(0, redelivered=True), delivery(2))) == []


def test_publishers_are_not_ordered_among_each_other() -> None:
    made_up = history(delivery(3), delivery(0, publisher=2))
    made_up.published[2] = Published(("q",), 1)
    assert kinds(made_up) == []


def test_several_consumers_are_judged_one_by_one() -> None:
    assert kinds(history(delivery(1, consumer="c1"), delivery(0, consumer="c2"))) == []
    assert kinds(history(delivery(1), delivery(0, life=1), delivery(2, consumer="c2"))) == []
    assert kinds(history(delivery(1), delivery(0), delivery(2, consumer="c2"))) == ["out of order"]
    assert kinds(history(delivery(1), delivery(0, redelivered=True), delivery(2, consumer="c2"))) == []


def test_a_drain_afterwards_does_not_count_as_a_second_consumer() -> None:
    drained = [delivery(1, life=1), delivery(0, life=2, consumer=DRAIN)]
    assert kinds(history(*drained)) == ["out of order"]


def test_a_silent_duplicate_is_seen() -> None:
    assert kinds(history(delivery(0), delivery(0))) == ["unflagged"]
    assert kinds(history(delivery(0), delivery(0, redelivered=True))) == []
    over_lives = history(delivery(0), delivery(0, life=1))
    assert kinds(over_lives) == ["unflagged"]
    assert kinds(over_lives, power_loss=True) == []
    # Even after a power loss only the first in a life may be silent.
    twice = history(delivery(0), delivery(0, life=1), delivery(0, life=1))
    assert kinds(twice, power_loss=True) == ["unflagged"]


def test_a_late_note_of_an_earlier_life_is_put_in_its_place() -> None:
    assert kinds(history(delivery(0, life=1, redelivered=True), delivery(0, life=0))) == []


def test_an_undone_ack_is_seen() -> None:
    assert kinds(history(delivery(0), ack(0), delivery(0, redelivered=True))) == ["resurrected"]
    assert kinds(history(delivery(0), ack(0), delivery(0, life=1, redelivered=True))) == []


def test_an_ack_on_a_connection_that_was_cut_may_be_undone() -> None:
    cut = Event(Kind.CUT, 0, "q", "c1", NO_MESSAGE)
    again, elsewhere = delivery(0, redelivered=True), delivery(0, redelivered=True, consumer="c2")
    assert kinds(history(delivery(0), ack(0), cut, again)) == []
    assert kinds(history(delivery(0), ack(0), again, cut)) == ["resurrected"]
    # The other consumer may have noted it first.
    assert kinds(history(delivery(0), ack(0), elsewhere, cut)) == []
    assert kinds(history(delivery(0), ack(0), elsewhere)) == ["resurrected"]


def test_findings_are_counted_and_shortened() -> None:
    made_up = history(attempted=1000, confirmed=tuple(range(1000)))
    text = checkers.shortened(checkers.findings(made_up))
    assert text.startswith("1000 x lost\n")
    assert len(text.splitlines()) < 20


def test_every_damage_to_a_body_is_seen() -> None:
    message = MessageId(3, 70000)
    for size in (16, 17, 1000, LARGE_BODY_BYTES):
        body = body_of(message, size)
        assert (len(body), id_of(body)) == (size, message)
        assert id_of(body[:-1]) is None
        assert id_of(body + b"x") is None
        for place in (0, 9, size - 1):
            assert id_of(body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]) is None
    assert id_of(bytes(500)) is None
