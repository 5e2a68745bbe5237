"""The judge of test_rules_model: real queues with their reference beside them, and whether what happened was right.

Subscribers without channels tell it what they get, queues tell it what arrives, and letters lie in the office. After
each step it explains all of that in order, with the reference's help, and compares every number."""

from __future__ import annotations

import struct
from typing import Any

from leveret.core.connection.consumer import Consumer, Getter
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Subscriber
from leveret.core.queue.dedup import DedupWindow
from leveret.core.queue.office import Office
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
    def __init__(self, channel_session: Desk, note: Note, entry: Any, taker: Taker | None) -> None:
        self.channel_session, self.note, self.entry, self.taker = channel_session, note, entry, taker


class Taker(Consumer):
    """A consumer without a channel: it tells the machine what it gets."""

    def __init__(self, machine: RulesJudge, channel_session: Desk, no_ack: bool, prefetch: int) -> None:
        super().__init__(None, channel_session.real, b"t", no_ack, False, 0, 0, 0, {})
        self.machine, self.channel_session, self.prefetch = machine, channel_session, prefetch
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

    def __init__(self, machine: RulesJudge, channel_session: Desk, no_ack: bool) -> None:
        super().__init__(None, channel_session.real, no_ack)
        self.machine, self.channel_session = machine, channel_session

    def ask(self) -> int:
        real = self.channel_session.real
        if real.deleted:
            return EMPTY
        answer = int(real.get(self))
        if answer == LATER:
            assert not real.ready.has_next() or real in self.machine.office.unfinished
            self.channel_session.getters.append(self)
            real.await_load(self.again)
        return answer

    def again(self) -> None:
        self.channel_session.getters.remove(self)
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
        self.channel_sessions: list[Desk] = []
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
        queue_log = disk.queue_log(self.ids) if disk and durable else None
        real = WatchedQueue(
            b"q",
            None,
            paging_context=disk.paging_context if disk else None,
            queue_log=queue_log,
            lazy=self.lazy,
            office=self.office,
            priority_max=priority_max,
            window=None if window is None else DedupWindow(self.ids, disk.journal if queue_log else None, *window),
        )
        real.machine = self
        return Desk(real, ReferenceQueue(priority_max, None if window is None else ReferenceWindow(*window)))

    # ---- what happens

    def set_alarm(self, timer: Any, due: int) -> None:
        """As the timer queue: the last call counts."""
        self.alarms[timer] = due

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

    def observe(self, channel_session: Desk) -> None:
        """Explains all that happened to this queue since the last look, and compares every number."""
        self.explain_all(channel_session)
        model, real = channel_session.model, channel_session.real
        while real.ready_count() < len(model.ready):
            self.leave_silently(channel_session)
        assert (real.ready_count(), real.ready_bytes()) == (len(model.ready), model.octets())
        assert real.delayed_count() == len(model.delayed)
        assert (real.unacked_count, real.unacked_bytes) == (
            len(channel_session.unacked),
            sum(held.note.size for held in channel_session.unacked),
        )
        self.compare_totals(channel_session)
        self.compare_disk()
        if not self.on_disk and real not in self.office.unfinished and real not in self.at_work:
            self.check_rest(channel_session)

    def compare_totals(self, channel_session: Desk) -> None:
        model, real = channel_session.model, channel_session.real
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
            for channel_session in self.channel_sessions
            if channel_session.real.queue_log is not None
            for note in [*channel_session.model.ready, *(waiting[2] for waiting in channel_session.model.delayed)]
        ]
        kept += [held.note for held in self.held if held.channel_session.real.queue_log is not None]
        assert self.disk.live() == sum(note.persistent for note in kept) + self.letters_durable

    def explain_all(self, channel_session: Desk) -> None:
        self.see_letters()
        events, self.events = self.events, []
        for event in events:
            note = self.notes[struct.unpack(">Q", event[1][:8])[0]]
            assert event[1] == note.body()
            if event[0] == "arrives":
                self.explain_arrival(channel_session, note, event[2])
            elif event[0] == "letter":
                self.explain_letter(channel_session, note, event[2])
            else:
                self.explain_delivery(channel_session, note, *event[2:])
        assert not channel_session.leaving, "a letter is missing"

    def explain_arrival(self, channel_session: Desk, note: Note, count: int) -> None:
        """Those that come at once are at their place already."""
        model = channel_session.model
        if note not in model.ready:
            while len(model.ready) > count:
                self.leave_silently(channel_session)
            assert model.delayed[0][2] is note, "not the one whose turn it is"
            model.release(self.office.now, self.step)

    def explain_letter(self, channel_session: Desk, note: Note, letter: Any) -> None:
        assert letter.queue is channel_session.real and channel_session.model.terms.buries
        # One that is rejected was handed out once more than it came back.
        assert letter.deliveries == note.returns + (letter.reason == REJECTED)
        kept = channel_session.real.queue_log is not None and note.persistent and note.place > 0
        channel_session.model.totals["buried"] += 1
        if note.number in channel_session.leaving:
            assert channel_session.leaving.pop(note.number) == letter.reason
        else:
            self.bring_to_head(channel_session, note, {letter.reason})
            channel_session.model.depart({letter.reason})
            note.rejected_on_disk = False
        kept = channel_session.real.queue_log is not None and note.persistent and note.place > 0
        assert (letter.position > 0) == kept
        self.letters_durable += kept

    def explain_delivery(
        self, channel_session: Desk, note: Note, redelivered: bool, taker: Taker | None, entry: Any
    ) -> None:
        self.bring_to_head(channel_session, note, None)
        assert redelivered == (note.returns > 0)
        channel_session.model.give(entry is None)
        if entry is not None:
            held = Held(channel_session, note, entry, taker)
            self.held.append(held)
            channel_session.unacked.append(held)

    def bring_to_head(self, channel_session: Desk, note: Note, reasons: set[int] | None) -> None:
        """Whatever stands before this message must have left; it must have to leave for this reason itself, or with
        None be one that may be given to somebody."""
        while not self.fits(channel_session, note, reasons):
            self.leave_silently(channel_session)

    def fits(self, channel_session: Desk, note: Note, reasons: set[int] | None) -> bool:
        ready = channel_session.model.ready
        if not ready or ready[0] is not note:
            return False
        found = channel_session.model.reasons(self.office.now)
        if reasons is not None:
            return reasons <= found
        # Past the rules, straight to a consumer.
        return not found or (note.step == self.step and note.returns == 0 and len(ready) == 1)

    def leave_silently(self, channel_session: Desk) -> None:
        model = channel_session.model
        assert model.ready, "more left than was there"
        found = model.reasons(self.office.now)
        assert found, f"message {model.ready[0].number} left without a reason"
        assert not model.terms.buries, f"message {model.ready[0].number} left without a letter"
        model.depart(found)

    def check_rest(self, channel_session: Desk) -> None:
        """Nothing can be done now."""
        model, real, now = channel_session.model, channel_session.real, self.office.now
        if model.ready:
            reasons = model.reasons(now)
            expiry = model.expiry(model.ready[0])
            rung = self.alarms.get(real)
            if expiry is not None:
                assert rung is not None and rung <= expiry, "nobody will look when the head expires"
            assert not reasons or reasons == {EXPIRED}, f"the head must leave: {reasons}"
            assert not [taker for taker in channel_session.takers if taker.can_take()], "somebody waits who could take"
        if model.delayed:
            due = model.delayed[0][0]
            assert self.alarms.get(real.delays, due + 1) <= due or real.delays in [
                *self.office.unfinished,
                *self.at_work,
            ]
