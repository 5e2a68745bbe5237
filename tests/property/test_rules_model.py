"""Queues with rules against a reference made of lists, with a clock that the test moves.

Expiry, limits, dead letters, priorities, delays and deduplication, all at once, with consumers who take, reject and
give back. The machine never predicts when something happens, for that depends on what is in memory: it reads off what
did happen, in order, and asks the reference whether each of it was right. When nothing is left to do (everything read
from disk, every letter carried), the head must be one that may stay, nobody who could take may wait, and whoever must
look again later must have asked for it.

In three settings: without a disk; with one, where hardly a body fits into memory; and lazy, where none does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from leveret.core.queue import classic_queue as queue_module
from leveret.core.queue import delays as delays_module
from leveret.core.queue import office as office_module
from leveret.core.queue.rules import Rules
from tests.fuzz.effort import effort, scaled
from tests.property.histories import play
from tests.property.rules_judge import EMPTY, GIVEN, Desk, Fetcher, Held, RulesJudge, Taker
from tests.property.rules_reference import (
    ACCEPTED,
    DELIVERY_LIMIT,
    MAXLEN,
    REFUSED,
    REJECT_AND_BURY,
    REJECTED,
    Note,
    Terms,
)
from tests.property.rules_steps import STEPS
from tests.unit.queues.dataplane import message

SETTLED, DISCARDED, REQUEUED = 0, 1, 2
INDEXES = st.integers(0, 1000)
QUEUES = st.sampled_from([0, 0, 0, 1])
# Mostly no limit, else hardly a message would live long enough to see others.
TERMS = st.builds(
    Terms,
    ttl=st.sampled_from([None, None, None, 50, 10, 0]),
    length=st.sampled_from([None, None, None, 8, 4, 2, 0]),
    octets=st.sampled_from([None, None, None, None, 700, 300, 0]),
    overflow=st.sampled_from([0, 0, 1, 2]),
    limit=st.sampled_from([None, None, None, 2, 1, 0]),
    buries=st.booleans(),
)
MESSAGES = st.fixed_dictionaries(
    {
        "size": st.sampled_from([8, 8, 60, 250]),
        "priority": st.integers(0, 5),
        "ttl": st.sampled_from([None, None, None, None, 30, 5, 0]),
        "delay": st.sampled_from([0, 0, 0, 0, 1, 20]),
        "persistent": st.sampled_from([True, True, False]),
        "key": st.sampled_from([None, "a", "b", "c", "d"]),
        "own_ttl": st.sampled_from([0, 0, 50, 100]),
    }
)
SIZES = st.lists(st.sampled_from([8, 60, 250]), min_size=1, max_size=8)
SELDOM = st.integers(0, 7).map(lambda number: number == 7)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is interrupted early. Compiled, the numbers are constants, and only long histories get there."""
    monkeypatch.setattr(queue_module, "SWEPT_A_STEP", 3, raising=False)
    monkeypatch.setattr(delays_module, "RELEASED_A_STEP", 2, raising=False)
    monkeypatch.setattr(office_module, "LETTERS_MAX", 4, raising=False)


class RulesMachine(RulesJudge, RuleBasedStateMachine):
    def __init__(self) -> None:
        RuleBasedStateMachine.__init__(self)
        RulesJudge.__init__(self)

    @initialize(
        priorities=st.lists(st.sampled_from([0, 0, 3]), min_size=2, max_size=2),
        windows=st.lists(st.sampled_from([None, None, (3, 0), (2, 40)]), min_size=2, max_size=2),
        durable=st.lists(st.sampled_from([True, True, False]), min_size=2, max_size=2),
    )
    def begin(self, priorities: list[int], windows: list[Any], durable: list[bool]) -> None:
        self.choices = list(zip(priorities, windows, durable, strict=True))
        self.channel_sessions = [self.new_desk(*choice) for choice in self.choices]

    # ---- steps: messages

    @rule(queue=QUEUES, messages=st.lists(MESSAGES, min_size=1, max_size=6))
    def publish(self, queue: int, messages: list[dict[str, Any]]) -> None:
        for choices in messages:
            self.publish_one(self.channel_sessions[queue], **choices)

    @rule(queue=QUEUES, sizes=SIZES, persistent=st.booleans(), delay=st.sampled_from([0, 0, 20]))
    def publish_plain(self, queue: int, sizes: list[int], persistent: bool, delay: int) -> None:
        """Many that ask for little: a backlog."""
        for size in sizes:
            self.publish_one(self.channel_sessions[queue], size, 0, None, delay, persistent, None, 0)

    def publish_one(
        self,
        channel_session: Desk,
        size: int,
        priority: int,
        ttl: int | None,
        delay: int,
        persistent: bool,
        key: Any,
        own_ttl: int,
    ) -> None:
        self.step += 1
        if self.disk:
            self.disk.provide_spares()
        note = Note(len(self.notes), size, priority, ttl, persistent)
        self.notes.append(note)
        headers = {"x-delay": -delay} if delay else {}
        properties: dict[str, Any] = {"delivery_mode": 2 if persistent else 1, "priority": priority}
        if ttl is not None:
            properties["expiration"] = str(ttl)
        if key is not None:
            properties["message_id"] = key
            headers["x-cache-ttl"] = own_ttl
        published = message(note.body(), headers=headers, **properties)
        now = self.office.now
        published.stamp = now + delay
        model = channel_session.model
        expected = model.answer(note, key, now)
        if expected == REFUSED:
            model.totals["refused"] += 1
            if model.terms.overflow == REJECT_AND_BURY and model.terms.buries:
                channel_session.leaving[note.number] = MAXLEN
        elif expected == ACCEPTED:
            if model.window is not None and key is not None:
                model.window.remember(key, now, -(-own_ttl // 100) * 100)
            if delay and not model.may_wait(note):
                model.count(MAXLEN)
                if model.terms.buries:
                    # It was accepted, so it has a place in the log until it is in the next queue.
                    note.place = self.step
                    channel_session.leaving[note.number] = MAXLEN
            elif delay:
                model.postpone(note, now + delay)
            else:
                model.arrive(note, now, self.step)
        assert channel_session.real.publish(published) == expected
        self.observe(channel_session)

    @rule(queue=QUEUES, count=st.integers(1, 5), no_ack=st.sampled_from([False, False, True]))
    def get(self, queue: int, count: int, no_ack: bool) -> None:
        for _ in range(count):
            self.get_one(self.channel_sessions[queue], no_ack)

    def get_one(self, channel_session: Desk, no_ack: bool) -> None:
        self.step += 1
        answer = Fetcher(self, channel_session, no_ack).ask()
        given = sum(event[0] == "given" and event[3] is None for event in self.events)
        self.observe(channel_session)
        assert given == (answer == GIVEN)
        assert answer != EMPTY or not channel_session.model.ready

    @precondition(lambda self: sum(len(channel_session.takers) for channel_session in self.channel_sessions) < 4)
    @rule(queue=QUEUES, no_ack=st.sampled_from([False, False, True]), prefetch=st.integers(1, 4))
    def consume(self, queue: int, no_ack: bool, prefetch: int) -> None:
        self.step += 1
        channel_session = self.channel_sessions[queue]
        taker = Taker(self, channel_session, no_ack, prefetch)
        channel_session.takers.append(taker)
        channel_session.real.subscribe(taker)
        self.observe(channel_session)

    @precondition(lambda self: any(channel_session.takers for channel_session in self.channel_sessions))
    @rule(index=INDEXES)
    def cancel(self, index: int) -> None:
        takers = [taker for channel_session in self.channel_sessions for taker in channel_session.takers]
        taker = takers[index % len(takers)]
        taker.channel_session.takers.remove(taker)
        taker.channel_session.real.unsubscribe(taker)
        self.observe(taker.channel_session)

    @precondition(lambda self: self.held)
    @rule(
        picks=st.lists(INDEXES, min_size=1, max_size=5),
        verdict=st.sampled_from([SETTLED, DISCARDED, REQUEUED, REQUEUED]),
    )
    def settle(self, picks: list[int], verdict: int) -> None:
        """As a channel does it: each is judged, whoever can take again is woken, then all that is back goes out."""
        self.step += 1
        channel_sessions = []
        for pick in picks:
            if self.held:
                held = self.held.pop(pick % len(self.held))
                if held.taker is not None:
                    held.taker.holds -= 1
                self.judge(held, verdict)
                if not held.channel_session.real.deleted:
                    channel_sessions.append(held.channel_session)
        for channel_session in dict.fromkeys(channel_sessions):
            woken = [taker for taker in channel_session.takers if taker.parked and taker.can_take()]
            for taker in woken:
                taker.parked = False
                channel_session.real.wake(taker)
            if woken or verdict == REQUEUED:
                channel_session.real.dispatch()
            self.observe(channel_session)

    def judge(self, held: Held, verdict: int) -> None:
        channel_session, note, entry = held.channel_session, held.note, held.entry
        channel_session.unacked.remove(held)
        model, terms = channel_session.model, channel_session.model.terms
        in_memory = entry.message.body is not None
        if verdict == SETTLED:
            model.totals["settled"] += 1
            channel_session.real.settle(entry)
        elif verdict == DISCARDED:
            model.totals["discarded"] += 1
            if terms.buries and not channel_session.real.deleted:
                if in_memory:
                    channel_session.leaving[note.number] = REJECTED
                else:
                    note.rejected_on_disk = True
                    model.put(note)
            channel_session.real.discard(entry)
        else:
            if not channel_session.real.deleted:
                model.totals["requeued"] += 1
                note.returns += 1
                if terms.limit is not None and note.returns > terms.limit and in_memory:
                    model.count(DELIVERY_LIMIT)
                    if terms.buries:
                        channel_session.leaving[note.number] = DELIVERY_LIMIT
                else:
                    model.put(note)
            channel_session.real.requeue(entry)
        if not channel_session.real.deleted:
            self.explain_all(channel_session)

    @rule(queue=QUEUES, really=SELDOM)
    def purge(self, queue: int, really: bool) -> None:
        if not really:
            return
        channel_session = self.channel_sessions[queue]
        count = len(channel_session.model.ready)
        channel_session.model.totals["discarded"] += count
        channel_session.model.ready.clear()
        assert channel_session.real.purge() == count
        self.observe(channel_session)

    @rule(queue=QUEUES, really=SELDOM)
    def delete(self, queue: int, really: bool) -> None:
        if not really:
            return
        channel_session = self.channel_sessions[queue]
        self.channel_sessions[queue] = self.new_desk(*self.choices[queue])
        channel_session.model.ready.clear()
        channel_session.model.delayed.clear()
        channel_session.real.close()
        assert not self.events and not channel_session.getters
        self.compare_disk()

    @rule(queue=QUEUES, terms=TERMS, dated=st.booleans())
    def set_rules(self, queue: int, terms: Terms, dated: bool) -> None:
        """Dated: a new time to live is for what comes from now on."""
        self.step += 1
        channel_session = self.channel_sessions[queue]
        since = self.office.now if dated else 0
        channel_session.model.change(terms, since)
        numbers = (-1 if number is None else number for number in (terms.ttl, terms.length, terms.octets))
        limit = -1 if terms.limit is None else terms.limit
        channel_session.real.set_rules(Rules(*numbers, terms.overflow, limit, b"x" if terms.buries else None), since)
        self.observe(channel_session)

    # ---- steps: time, letters, interrupted work

    @rule(ms=st.sampled_from([1, 5, 20, 60]), late=st.booleans())
    def advance(self, ms: int, late: bool) -> None:
        """Late: the alarms ring some time later, after whatever else happens until then."""
        if late:
            self.office.now += ms
        else:
            self.ring_until(self.office.now + ms)

    def ring_until(self, end: int) -> None:
        while self.alarms and min(self.alarms.values()) <= end:
            timer = min(self.alarms, key=lambda one: self.alarms[one])
            self.office.now = max(self.office.now, self.alarms.pop(timer))
            self.step += 1
            timer.ring()
            self.observe_worker(timer)
        self.office.now = end

    def observe_worker(self, worker: Any) -> None:
        for channel_session in self.channel_sessions:
            if channel_session.is_mine(worker):
                self.observe(channel_session)
        assert not self.events, "a queue that is gone did something"

    @precondition(lambda self: self.office.letters)
    @rule(count=st.sampled_from([1, 2, 1000]))
    def carry(self, count: int) -> None:
        letters = self.office.take_letters()
        self.office.put_back(letters[count:])
        self.letters_seen = len(self.office.letters)
        for letter in letters[:count]:
            self.letters_durable -= letter.position > 0
            letter.queue.letter_sent(letter)
        self.compare_disk()

    @precondition(lambda self: self.office.unfinished)
    @rule()
    def go_on(self) -> None:
        self.at_work = self.office.take_unfinished()
        while self.at_work:
            worker = self.at_work.pop(0)
            self.step += 1
            worker.go_on()
            self.observe_worker(worker)

    # ---- steps: the disk

    @precondition(lambda self: self.on_disk)
    @rule()
    def commit(self) -> None:
        self.disk.commit()

    @precondition(lambda self: self.on_disk)
    @rule(pressed=st.booleans(), queue=QUEUES, octets=st.sampled_from([0, 1, 300, 10000]))
    def press(self, pressed: bool, queue: int, octets: int) -> None:
        self.disk.provide_spares()
        self.disk.paging_context.pressed = pressed
        self.channel_sessions[queue].real.page_out(octets)
        self.observe(self.channel_sessions[queue])

    @precondition(lambda self: self.disk and (self.load or self.disk.wanting))
    @rule(steps=st.sampled_from([1, 2, 3, 8]))
    def read_on(self, steps: int) -> None:
        self.disk.commit()
        for _ in range(steps):
            if self.load or self.disk.wanting:
                self.read()

    def read(self) -> None:
        """As the loader: one load at a time, which takes a while."""
        self.step += 1
        if self.load is None:
            mover = self.disk.wanting.pop(0)
            load = mover.take_load(self.disk.journal)
            if load is not None:
                self.load = (mover, load)
        else:
            (mover, load), self.load = self.load, None
            self.disk.read(load)
            assert load.lost == {}
            mover.finish_load(load)
        if self.load is None and mover.lacks_next():
            # There is more, or it is not even written.
            self.disk.want(mover)
        self.observe_worker(mover)

    @rule(really=SELDOM, ring=st.booleans())
    def come_to_rest(self, really: bool, ring: bool) -> None:
        if not really:
            return
        if ring:
            self.ring_until(self.office.now)
        for _ in range(100_000):
            if self.disk and (self.load or self.disk.wanting):
                self.read_on(1)
            elif self.office.letters:
                self.carry(1000)
            elif self.office.unfinished:
                self.go_on()
            else:
                break
        for channel_session in self.channel_sessions:
            assert not channel_session.getters, "somebody waits for a load that will never come"
            self.check_rest(channel_session)

    def teardown(self) -> None:
        if not self.channel_sessions:
            return
        self.come_to_rest(True, True)
        for queue in (0, 1):
            self.delete(queue, True)
        while self.held:
            self.settle([0], DISCARDED)
        if self.disk:
            assert (self.disk.live(), self.disk.live(True)) == (0, 0), "something on disk was forgotten"


class DiskMachine(RulesMachine):
    on_disk = True


class LazyMachine(RulesMachine):
    on_disk = True
    lazy = True


TestRules = RulesMachine.TestCase
TestRules.settings = effort(60, stateful_step_count=40)
TestRulesOnDisk = DiskMachine.TestCase
TestRulesOnDisk.settings = effort(60, stateful_step_count=40)
TestLazyRules = LazyMachine.TestCase
TestLazyRules.settings = effort(60, stateful_step_count=40)


@pytest.mark.parametrize("machine", [RulesMachine, DiskMachine, LazyMachine])
def test_long_histories(machine: type[RulesMachine]) -> None:
    for seed in range(scaled(60)):
        play(machine(), STEPS, seed, 120, lambda: None)
