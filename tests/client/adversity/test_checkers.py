"""Each checker finds what it is for, and nothing in a ledger that is as it should be."""

from __future__ import annotations

import asyncio

import pytest

from tests.client.adversity import ledger as ledgers
from tests.client.adversity.checkers import SLACK_S, check, findings, late, lost, out_of_order, phantoms, twice
from tests.client.adversity.ledger import Attempt, Ledger, MessageId, Sighting, Wait, body_of, id_of

ONE, TWO, THREE = (MessageId("p", number) for number in (1, 2, 3))


def good() -> Ledger:
    ledger = Ledger()
    for message in (ONE, TWO, THREE):
        ledger.attempts[message] = Attempt("q", is_confirmed=True, sent_count=1)
        ledger.see(Sighting("q", "c", message))
        ledger.processed.add(message)
    return ledger


def test_a_good_ledger_has_no_findings() -> None:
    check(good())


def test_lost() -> None:
    ledger = good()
    ledger.processed.discard(TWO)
    assert len(lost(ledger)) == 1
    # Nobody knows of it, or it is where somebody will find it.
    ledger.attempts[TWO].is_confirmed = False
    assert not lost(ledger)
    ledger.attempts[TWO].is_confirmed = True
    ledger.parked.add(TWO)
    assert not lost(ledger)


def test_phantoms() -> None:
    ledger = good()
    ledger.see(Sighting("other", "c", ONE))
    ledger.see(Sighting("q", "c", MessageId("p", 9)))
    ledger.damaged.append("octets")
    assert len(phantoms(ledger)) == 3


@pytest.mark.parametrize("message", [ONE, MessageId("a-b", 12345)])
def test_bodies_say_whether_they_are_whole(message: MessageId) -> None:
    body = body_of(message, padding=20)
    assert id_of(body) == message
    assert id_of(body[:-1]) is None
    assert id_of(b"x" + body[1:]) is None
    assert id_of(b"") is None


def test_order() -> None:
    ledger = good()
    ledger.see(Sighting("q", "c", TWO))
    assert len(out_of_order(ledger)) == 1


@pytest.mark.parametrize(
    "sighting",
    [
        Sighting("q", "c", TWO, redelivered=True),
        Sighting("q", "c", TWO, was_retried=True),
        Sighting("q", "another", TWO),
    ],
)
def test_what_may_come_late(sighting: Sighting) -> None:
    ledger = good()
    ledger.see(sighting)
    assert not out_of_order(ledger)


def test_what_was_sent_again_has_no_order() -> None:
    ledger = good()
    ledger.attempts[TWO].sent_count = 2
    ledger.see(Sighting("q", "c", TWO))
    assert not out_of_order(ledger)


def test_late() -> None:
    ledger = good()
    ledger.waits.append(Wait("a publish", 1.0, 1.0 + SLACK_S / 2))
    assert not late(ledger)
    ledger.waits.append(Wait("a publish", 1.0, 1.1 + SLACK_S))
    ledger.waits.append(Wait("a publish", 1.0, 1.0, hung=True))
    assert len(late(ledger)) == 2
    ledger.lag_s = 1.0
    assert len(late(ledger)) == 1


def test_twice() -> None:
    ledger = good()
    assert not twice(ledger, [ONE, TWO, THREE], "q")
    assert len(twice(ledger, [ONE, TWO, TWO, THREE], "q")) == 1
    assert len(twice(ledger, [ONE, THREE], "q")) == 1
    assert not twice(ledger, [], "another")


def test_surprises_and_wrong_answers() -> None:
    ledger = good()
    ledger.surprises.append("KeyError")
    ledger.wrong_answers.append("4 to 3")
    assert len(findings(ledger)) == 2
    with pytest.raises(AssertionError, match="1 x surprise"):
        check(ledger)


def test_a_wait_that_hangs_is_torn_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "HANG_S", 0.05)
    ledger = Ledger()

    async def wait() -> None:
        with ledger.bounded("nothing", 0.01):
            await asyncio.Event().wait()
        # And the task can go on.
        await asyncio.sleep(0)

    asyncio.run(wait())
    assert [wait.hung for wait in ledger.waits] == [True]
    assert findings(ledger)[0].startswith("hung: nothing")


def test_whoever_cancels_a_wait_is_obeyed() -> None:
    ledger = Ledger()

    async def wait() -> None:
        with ledger.bounded("nothing", 10):
            await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(main())
    assert not ledger.waits and ledger.waits_total == 1


def test_the_lag_of_a_busy_loop_is_seen() -> None:
    ledger = Ledger()

    async def main() -> None:
        watch = asyncio.create_task(ledger.watch_lag(0.01))
        await asyncio.sleep(0.02)
        end = asyncio.get_running_loop().time() + 0.1
        while asyncio.get_running_loop().time() < end:
            pass
        await asyncio.sleep(0.02)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)

    asyncio.run(main())
    assert ledger.lag_s > 0.05
