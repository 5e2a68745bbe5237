"""The checkers of queues with rules, on made-up histories: a good one passes, and each kind of fault is seen."""

from tests.conformance.amqp_codec import Value, encode_properties
from tests.crash import rules_checkers
from tests.crash.history import DRAIN, Event, Kind, Published, Sighting
from tests.crash.messages import MessageId
from tests.crash.rules_load import QUEUES, Purpose, RulesHistory

WORK = QUEUES[Purpose.WORK][0]


def history(*sightings: Sighting, life: int = 0, confirmed: tuple[int, ...] = (0,)) -> RulesHistory:
    """Every delivery by a consumer was acked."""
    made = RulesHistory()
    made.life = life
    made.deaths = [100.0] * life
    for purpose, queues in QUEUES.items():
        made.published[purpose] = Published(queues, 10)
    made.sightings = list(sightings)
    for seen in sightings:
        made.events.append(Event(Kind.DELIVERED, *seen[:4], redelivered=seen.redelivered))
        made.events.append(Event(Kind.ACKED, *seen[:4]))
        made.published[seen.message.publisher].confirmed.update(confirmed)
    return made


def sighting(
    purpose: Purpose,
    sequence: int = 0,
    place: int = 0,
    life: int = 0,
    consumer: str = DRAIN,
    at: float = 99.5,
    redelivered: bool = False,
    headers: dict[str, Value] | None = None,
) -> Sighting:
    queue = QUEUES[purpose][place]
    raw = encode_properties({"headers": headers or {}})
    return Sighting(life, queue, consumer, MessageId(purpose, sequence), redelivered, raw, at)


def dead(reason: str = "rejected", queue: str = WORK, **more: Value) -> dict[str, Value]:
    return {"x-death": [{"reason": reason, "queue": queue, "count": 1}], **more}


def kinds(made_up: RulesHistory, power_loss: bool = False) -> list[str]:
    return [finding.partition(":")[0] for finding in rules_checkers.findings(made_up, power_loss)]


def test_a_good_history_passes() -> None:
    buried = sighting(Purpose.WORK, 1, 1, headers=dead())
    assert kinds(history(sighting(Purpose.WORK, consumer="worker"), buried, confirmed=(0, 1))) == []


def test_a_lost_message_is_seen() -> None:
    assert kinds(history(sighting(Purpose.WORK), confirmed=(0, 3))) == ["lost"]


def test_a_message_in_two_places_is_seen() -> None:
    buried = sighting(Purpose.WORK, place=1, headers=dead())
    assert "twice" in kinds(history(sighting(Purpose.WORK), buried))
    assert kinds(history(buried, buried)) == ["twice"]


def test_an_undone_ack_is_seen_unless_a_crash_came_right_after_it() -> None:
    over = sighting(Purpose.LEVELS, place=1, life=1, headers=dead("expired", QUEUES[Purpose.LEVELS][0]))
    late = sighting(Purpose.LEVELS, consumer="levels", at=99.5)
    assert kinds(history(late, over, life=1)) == []
    long_before = sighting(Purpose.LEVELS, consumer="levels", at=90.0)
    assert kinds(history(long_before, over, life=1)) == ["undone"]
    assert kinds(history(long_before, over, life=1), power_loss=True) == []
    assert kinds(history(late._replace(life=1), over, life=1)) == ["undone"]
    # What a worker acks it never rejects, whenever the crash came.
    buried = sighting(Purpose.WORK, place=1, life=1, headers=dead())
    assert kinds(history(sighting(Purpose.WORK, consumer="worker"), buried, life=1)) == ["undone"]


def test_a_wrong_cause_of_death_is_seen() -> None:
    assert kinds(history(sighting(Purpose.WORK, place=1, headers=dead("expired")))) == ["misplaced"]
    assert kinds(history(sighting(Purpose.WORK, place=1, headers=dead(queue="other")))) == ["misplaced"]
    source = QUEUES[Purpose.RETRIED][0]
    parked = dead(queue=source)
    assert kinds(history(sighting(Purpose.RETRIED, place=1, headers=parked | {"x-retry-count": 2}))) == []
    assert kinds(history(sighting(Purpose.RETRIED, place=1, headers=parked | {"x-retry-count": 1}))) == ["misplaced"]


def test_a_message_before_its_time_is_seen() -> None:
    made = history(sighting(Purpose.DELAYED, at=10.5, headers={"x-delay": -500}))
    made.delays[MessageId(Purpose.DELAYED, 0)] = (10.0, 500)
    assert kinds(made) == []
    made.delays[MessageId(Purpose.DELAYED, 0)] = (10.1, 500)
    assert kinds(made) == ["early"]
    made.delays[MessageId(Purpose.DELAYED, 0)] = (9.0, 400)
    assert kinds(made) == ["early"], "the header says another delay"


def test_a_delayed_message_that_comes_twice_says_so() -> None:
    first = sighting(Purpose.DELAYED, at=20.0, consumer="delayed", headers={"x-delay": -500})
    again = first._replace(life=1)
    for redelivered, expected in ((True, []), (False, ["unflagged"])):
        made = history(first, again._replace(redelivered=redelivered), life=1)
        made.delays[MessageId(Purpose.DELAYED, 0)] = (10.0, 500)
        assert kinds(made) == expected
        assert kinds(made, power_loss=True) == []


def test_wrong_order_is_seen_for_each_priority() -> None:
    assert kinds(history(sighting(Purpose.SHORT, 1), sighting(Purpose.SHORT, 0))) == ["out of order"]
    # 0 and 6 have the same priority, 1 has another one.
    levels = [sighting(Purpose.LEVELS, sequence, consumer="levels") for sequence in (1, 0, 6)]
    assert kinds(history(*levels)) == []
    assert kinds(history(*reversed(levels))) == ["out of order"]


def test_a_duplicate_that_was_taken_is_seen() -> None:
    first = sighting(Purpose.ONCE_CONSUMED, consumer="once")
    made = history(first, first._replace(life=1), life=1)
    # Not confirmed before the crash: it was sent again, and is the first on disk.
    made.confirmed_in[first.message] = 1
    assert kinds(made) == []
    made.confirmed_in[first.message] = 0
    assert kinds(made) == ["taken again"]
    made = history(first, first)
    made.confirmed_in[first.message] = 0
    assert kinds(made) == ["taken again"]
