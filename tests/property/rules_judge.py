"""The judge of test_rules_model: real queues with their reference beside them, and whether what happened was right.

Subscribers without channels tell it what they get, queues tell it what arrives, and letters lie in the office. After
each step it explains all of that in order, with the reference's help, and compares every number."""

from __future__ import annotations

import struct
from typing import Any

from leveret.core.consumer import Consumer, Getter
from leveret.core.contract import Subscriber
from leveret.core.dedup import Window
from leveret.core.office import Office
from leveret.core.queue import ClassicQueue
from tests.property.rules_reference import EXPIRED, REJECTED, TOTALS, Note, ReferenceQueue, ReferenceWindow
from tests.unit.core.fake_disk import FakeDisk

EMPTY, GIVEN, LATER = 0, 1, 2
START = 1_800_000_000_000
SEGMENT_BYTES, WINDOW_BYTES = 2000, 200


class Desk:
    """One queue: the real one, and the reference."""

    def __init__(self, real: Any, model: ReferenceQueue) -> None:
        self.real, self.model = real, model
        self.takers: list[Taker] = []
        self.getters: list[Fetcher] = []
        self.unacked: list[Held] = []
        # Messages that leave by what a client did, and why: their letters may come at once.
        self.leaving: dict[int, int] = {}

    def is_mine(self, worker: Any) -> bool:
        return worker is self.real or worker is self.real.delays


class Held:
    def __init__(self, desk: Desk, note: Note, entry: Any, taker: Taker | None) -> None:
        self.desk, self.note, self.entry, self.taker = desk, note, entry, taker


class Taker(Consumer):
    """A consumer without a channel: it tells the machine what it gets."""

    def __init__(self, machine: RulesJudge, desk: Desk, no_ack: bool, prefetch: int) -> None:
        super().__init__(None, desk.real, b"t", no_ack, False, 0, 0, 0, {})
        self.machine, self.desk, self.prefetch = machine, desk, prefetch
        self.parked = False
        # Counted here and not by the reference, which learns of it only after the step.
        self.holds = 0

    def can_take(self) -> bool:
        return self.no_ack or self.holds < self.prefetch

    def take(self, entry: Any) -> int:
        self.holds += 1
        self.machine.saw(("given", entry.message.body, entry.seen, self, entry))
        return 0

    def hand(self, got: Any, redelivered: bool) -> int:
        self.machine.saw(("given", got.body, redelivered, self, None))
        return 0

    def park(self) -> int:
        self.parked = True
        return int(Subscriber.park(self))


class WatchedQueue(ClassicQueue):
    """Tells the machine when a message arrives, and how many were there before."""

    machine: RulesJudge

    def arrive(self, arriving: Any) -> int:
        self.machine.saw(("arrives", arriving.body, self.ready_count()))
        return int(super().arrive(arriving))


class Fetcher(Getter):
    """One basic.get, which asks again when it is called."""

    def __init__(self, machine: RulesJudge, desk: Desk, no_ack: bool) -> None:
        super().__init__(None, desk.real, no_ack)
        self.machine, self.desk = machine, desk

    def ask(self) -> int:
        real = self.desk.real
        if real.deleted:
            return EMPTY
        answer = int(real.get(self))
        if answer == LATER:
            assert not real.ready.has_next() or real in self.machine.office.unfinished
            self.desk.getters.append(self)
            real.await_load(self.again)
        return answer

    def again(self) -> None:
        self.desk.getters.remove(self)
        self.ask()

    def take(self, entry: Any) -> int:
        self.machine.saw(("given", entry.message.body, entry.seen, None, entry))
        return 0

    def hand(self, got: Any, redelivered: bool) -> int:
        self.machine.saw(("given", got.body, redelivered, None, None))
        return 0


class RulesJudge:
    """Two queues and what they share. `on_disk` and `lazy` are the setting."""

    on_disk = False
    lazy = False

    def __init__(self) -> None:
        self.disk: Any = FakeDisk(SEGMENT_BYTES, WINDOW_BYTES) if self.on_disk else None
        self.office = Office(START, alarm=self.set_alarm)
        self.alarms: dict[Any, int] = {}
        self.desks: list[Desk] = []
        self.notes: list[Note] = []
        self.held: list[Held] = []
        self.events: list[tuple[Any, ...]] = []
        # How many of the office's letters were seen, and the messages of all that are on their way.
        self.letters_seen = 0
        self.letters_durable = 0
        self.load: tuple[Any, Any] | None = None
        # Workers whose turn to go on comes in this very step.
        self.at_work: list[Any] = []
        self.step = 0
        self.ids = 0

    def new_desk(self, priority_max: int, window: tuple[int, int] | None, durable: bool) -> Desk:
        self.ids += 1
        disk = self.disk
        ledger = disk.ledger(self.ids) if disk and durable else None
        real = WatchedQueue(
            b"q",
            None,
            shelf=disk.shelf if disk else None,
            ledger=ledger,
            lazy=self.lazy,
            office=self.office,
            priority_max=priority_max,
            window=None if window is None else Window(self.ids, disk.journal if ledger else None, *window),
        )
        real.machine = self
        return Desk(real, ReferenceQueue(priority_max, None if window is None else ReferenceWindow(*window)))

    # ---- what happens

    def set_alarm(self, sleeper: Any, due: int) -> None:
        """As the agenda: the last call counts."""
        self.alarms[sleeper] = due

    def saw(self, event: tuple[Any, ...]) -> None:
        """A message was given to somebody; letters that were posted before come before it."""
        self.see_letters()
        self.events.append(event)

    def see_letters(self) -> None:
        for letter in self.office.letters[self.letters_seen :]:
            self.events.append(("letter", letter.message.body, letter))
        self.letters_seen = len(self.office.letters)

    # ---- steps: messages

    # ---- whether that was right

    def observe(self, desk: Desk) -> None:
        """Explains all that happened to this queue since the last look, and compares every number."""
        self.explain_all(desk)
        model, real = desk.model, desk.real
        while real.ready_count() < len(model.ready):
            self.leave_silently(desk)
        assert (real.ready_count(), real.ready_bytes()) == (len(model.ready), model.octets())
        assert real.delayed_count() == len(model.delayed)
        assert (real.unacked_count, real.unacked_bytes) == (
            len(desk.unacked),
            sum(held.note.size for held in desk.unacked),
        )
        self.compare_totals(desk)
        self.compare_disk()
        if not self.on_disk and real not in self.office.unfinished and real not in self.at_work:
            self.check_rest(desk)

    def compare_totals(self, desk: Desk) -> None:
        model, real = desk.model, desk.real
        found = {name: getattr(real, f"{name}_total") for name in model.totals}
        open_ones = sum(found[name] - model.totals[name] for name in TOTALS)
        assert all(found[name] >= model.totals[name] for name in TOTALS) and 0 <= open_ones <= model.ambiguous
        assert {**found, **dict.fromkeys(TOTALS)} == {**model.totals, **dict.fromkeys(TOTALS)}
        if model.window is not None:
            assert real.window.duplicates_total == model.window.duplicates

    def compare_disk(self) -> None:
        if self.disk is None:
            return
        kept = [
            note
            for desk in self.desks
            if desk.real.ledger is not None
            for note in [*desk.model.ready, *(waiting[2] for waiting in desk.model.delayed)]
        ]
        kept += [held.note for held in self.held if held.desk.real.ledger is not None]
        assert self.disk.live() == sum(note.persistent for note in kept) + self.letters_durable

    def explain_all(self, desk: Desk) -> None:
        self.see_letters()
        events, self.events = self.events, []
        for event in events:
            note = self.notes[struct.unpack(">Q", event[1][:8])[0]]
            assert event[1] == note.body()
            if event[0] == "arrives":
                self.explain_arrival(desk, note, event[2])
            elif event[0] == "letter":
                self.explain_letter(desk, note, event[2])
            else:
                self.explain_delivery(desk, note, *event[2:])
        assert not desk.leaving, "a letter is missing"

    def explain_arrival(self, desk: Desk, note: Note, count: int) -> None:
        """Those that come at once are at their place already."""
        model = desk.model
        if note not in model.ready:
            while len(model.ready) > count:
                self.leave_silently(desk)
            assert model.delayed[0][2] is note, "not the one whose turn it is"
            model.release(self.office.now, self.step)

    def explain_letter(self, desk: Desk, note: Note, letter: Any) -> None:
        assert letter.queue is desk.real and desk.model.terms.buries
        # One that is rejected was handed out once more than it came back.
        assert letter.deliveries == note.returns + (letter.reason == REJECTED)
        kept = desk.real.ledger is not None and note.persistent and note.place > 0
        desk.model.totals["buried"] += 1
        if note.number in desk.leaving:
            assert desk.leaving.pop(note.number) == letter.reason
        else:
            self.bring_to_head(desk, note, {letter.reason})
            desk.model.depart({letter.reason})
            note.doomed = False
        kept = desk.real.ledger is not None and note.persistent and note.place > 0
        assert (letter.position > 0) == kept
        self.letters_durable += kept

    def explain_delivery(self, desk: Desk, note: Note, redelivered: bool, taker: Taker | None, entry: Any) -> None:
        self.bring_to_head(desk, note, None)
        assert redelivered == (note.returns > 0)
        desk.model.give(entry is None)
        if entry is not None:
            held = Held(desk, note, entry, taker)
            self.held.append(held)
            desk.unacked.append(held)

    def bring_to_head(self, desk: Desk, note: Note, reasons: set[int] | None) -> None:
        """Whatever stands before this message must have left; it must have to leave for this reason itself, or with
        None be one that may be given to somebody."""
        while not self.fits(desk, note, reasons):
            self.leave_silently(desk)

    def fits(self, desk: Desk, note: Note, reasons: set[int] | None) -> bool:
        ready = desk.model.ready
        if not ready or ready[0] is not note:
            return False
        found = desk.model.reasons(self.office.now)
        if reasons is not None:
            return reasons <= found
        # Past the rules, straight to a consumer.
        return not found or (note.step == self.step and note.returns == 0 and len(ready) == 1)

    def leave_silently(self, desk: Desk) -> None:
        model = desk.model
        assert model.ready, "more left than was there"
        found = model.reasons(self.office.now)
        assert found, f"message {model.ready[0].number} left without a reason"
        assert not model.terms.buries, f"message {model.ready[0].number} left without a letter"
        model.depart(found)

    def check_rest(self, desk: Desk) -> None:
        """Nothing can be done now."""
        model, real, now = desk.model, desk.real, self.office.now
        if model.ready:
            reasons = model.reasons(now)
            expiry = model.expiry(model.ready[0])
            rung = self.alarms.get(real)
            if expiry is not None:
                assert rung is not None and rung <= expiry, "nobody will look when the head expires"
            assert not reasons or reasons == {EXPIRED}, f"the head must leave: {reasons}"
            assert not [taker for taker in desk.takers if taker.can_take()], "somebody waits who could take"
        if model.delayed:
            due = model.delayed[0][0]
            assert self.alarms.get(real.delays, due + 1) <= due or real.delays in [
                *self.office.unfinished,
                *self.at_work,
            ]
