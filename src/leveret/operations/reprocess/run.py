"""One job at work: takes messages from its queue in small steps, moves those that are meant, puts the others back.

It means what was in the queue when it began and no more, so a message that it replays and that dies again does not go
in circles. What it passes over it holds until its end: the queue hands out from the head only, and would give it the
same again. A message that is moved leaves the queue in the turn in which its copy is taken (see carrier), and counts as
moved once that is on disk. What goes into the archive's files leaves the queue when its file is durable (see filing).
The job's record in the catalog follows about once a second: a job that a restart interrupted goes on with what is
left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.vhost import LiveVhost
from leveret.catalog import commands
from leveret.catalog.records import Reprocessing
from leveret.core.queue.mover import Mover
from leveret.operations.reprocess.archive_files import ArchiveFiles
from leveret.operations.reprocess.archive_record import Place
from leveret.operations.reprocess.carrier import Carrier
from leveret.operations.reprocess.filing import Filing
from leveret.operations.reprocess.filter import CompiledFilter
from leveret.operations.reprocess.letter import Letter
from leveret.operations.reprocess.pace import UNLIMITED, Pace
from leveret.operations.reprocess.spec import CANCELLED, DONE, FAILED, RUNNING, JobView, view
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# A step ends after so many messages, or after this long.
LOOKED_A_STEP = 256
STEP_S = 0.004
PUT_BACK_A_STEP = 8192
# A message that is passed over takes half a kilobyte until the job ends.
KEPT_MAX = 250_000
# In a queue with priorities newer messages stand between older ones; after so many in a row there are hardly any left.
NEWER_IN_A_ROW_MAX = 1024
SAVE_EVERY_S = 1.0
# How often it looks whether what holds it up has gone.
CONGESTED_S = 0.005
BLOCKED_S = 0.1
# It looks around after this long at the latest: its queue may have been deleted.
WAIT_S_MAX = 1.0

# What came of a step.
MORE, LATER, END = range(3)


class Run:
    """`turn` is shared by all jobs: one of them has its step in each turn of the loop."""

    def __init__(
        self,
        broker: Broker,
        vhost: LiveVhost,
        queue: Any,
        record: Reprocessing,
        turn: asyncio.Lock,
        files: ArchiveFiles | None = None,
        place: Place | None = None,
    ) -> None:
        # Skipped and failed messages are still there and are looked at again by a job that goes on.
        done = 0 if record.dry_run else record.moved + record.archived
        end_position = min(record.end_position, queue.tail_position())
        self.record = msgspec.structs.replace(record, matched=done, skipped=0, failed=0, end_position=end_position)
        self._broker = broker
        self._vhost = vhost
        self._queue = queue
        self._turn = turn
        self._mover = Mover(queue)
        self._filter = CompiledFilter(record.filter)
        self._carrier = Carrier(broker, vhost, self.record)
        self.filing = Filing(files, place or Place("", "", queue.record, "", record.id), self._mover)
        self._by_priority = queue.record.arguments.get("x-max-priority", 0) > 0
        self._matched = done
        self._moved = record.moved
        self._archived = record.archived
        self._skipped = self._failed = 0
        self._last_error = record.last_error
        # Moved by the step at hand, and not yet known to be on disk.
        self._step_moved = self._step_archived = 0
        self._newer_in_a_row = 0
        # By a message that could not be moved.
        self._stopped = False
        self._to_look_at: int = queue.ready_count()
        self._moved_before = record.moved + record.archived
        self._began_s = self._saved_s = broker.clock.monotonic()
        self._pace = Pace(0 if record.dry_run else record.rate, self._began_s)
        self._waiting = ""
        self._cancelled = False
        self._suspended = False
        # Set to end a wait.
        self._signal = asyncio.Event()

    # ---- from outside

    def cancel(self) -> None:
        self._cancelled = True
        self._signal.set()

    def suspend(self) -> None:
        """The broker stops: the job goes on at the next start."""
        self._suspended = True
        self._signal.set()

    def view(self) -> JobView:
        looked = self._matched + self._skipped - self._moved_before
        remaining = max(0, min(self._to_look_at - looked, self._queue.ready_count()))
        if self.record.limit:
            remaining = min(remaining, self._limit_left())
        elapsed_s = max(self._broker.clock.monotonic() - self._began_s, 1e-3)
        speed = (self._moved + self._archived - self._moved_before) / elapsed_s
        return view(self._current(self.record.state), remaining, speed, self._waiting)

    # ---- its life

    async def work(self) -> None:
        """Until it is done, cancelled, suspended, or has lost its queue."""
        self._broker.movers.add(self._mover)
        state = RUNNING
        try:
            state = await self._go_through()
            await self._settle_filed(await self.filing.complete())
            self._note_unfiled()
            if not self._suspended:
                await self._put_all_back()
        except OSError as error:
            # The disk has failed and the broker stops.
            log.warning("reprocessing is interrupted", queue=self.record.queue, error=str(error))
            return
        except Exception as error:
            log.exception("reprocessing failed", vhost=self.record.vhost, queue=self.record.queue)
            self._last_error = f"the broker made a mistake: {error!r}"
            self._count_step()
            state = FAILED
        finally:
            await self.filing.abandon()
            self._mover.put_back(UNLIMITED)
            self._broker.movers.discard(self._mover)
        self._save(state)
        if not self._suspended:
            self._queue.dispatch()
            self._broker.kick()

    async def _go_through(self) -> str:
        while True:
            if self._queue.deleted:
                self._last_error = "the queue was deleted"
                return FAILED
            # It is in use: also if the job has to wait.
            self._vhost.queue_expiry.renew(self._queue)
            if self._cancelled:
                return CANCELLED
            if self._suspended:
                return RUNNING
            if self.record.limit and self._limit_left() == 0:
                return DONE
            if self._mover.kept_count() > KEPT_MAX:
                self._last_error = f"more than {KEPT_MAX} messages were passed over; choose a smaller part of the queue"
                return FAILED
            if self._must_wait():
                await self._wait(CONGESTED_S if self._broker.blocked_reason is None else BLOCKED_S)
                continue
            allowance = self._pace.allowance(self._broker.clock.monotonic())
            if allowance < 1:
                await self._wait(self._pace.wait_s())
                continue
            outcome = await self._take_turn(min(allowance, self._limit_left()))
            if outcome == END:
                return FAILED if self._stopped else DONE
            if outcome == LATER:
                await self._rest(WAIT_S_MAX)

    async def _take_turn(self, most: int) -> int:
        async with self._turn:
            try:
                outcome = self._step(most)
            finally:
                self._broker.kick()
            # Whatever else is to be done on this loop comes before the next step of any job.
            await asyncio.sleep(0)
        await self._settle_filed(await self.filing.write())
        if self._broker.clock.monotonic() - self._saved_s >= SAVE_EVERY_S:
            self._save(RUNNING)
        return outcome

    async def _settle_filed(self, filed: int) -> None:
        """Counts what has moved once the log has it; of what was archived in files, the ends of the originals."""
        self._step_archived += filed
        if self._step_moved or self._step_archived:
            if self._broker.store is not None:
                await self._broker.store.flush()
            self._count_step()

    def _note_unfiled(self) -> None:
        if self.filing.put_back:
            self._failed += self.filing.put_back
            self._last_error = self.filing.error

    def _count_step(self) -> None:
        self._moved += self._step_moved
        self._archived += self._step_archived
        self._step_moved = self._step_archived = 0

    def _must_wait(self) -> bool:
        reason = self._broker.blocked_reason
        if reason is None and self._broker.store is not None and self._broker.store.journal.congested:
            reason = "the disk is behind"
        self._waiting = reason or ""
        return reason is not None

    async def _wait(self, seconds: float) -> None:
        self._signal.clear()
        if not self._cancelled and not self._suspended:
            await self._rest(min(seconds, WAIT_S_MAX))

    async def _rest(self, seconds: float) -> None:
        """Until this time has passed, or the signal is set."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._signal.wait(), seconds)

    async def _put_all_back(self) -> None:
        """In the order of the queue, a part at a time: consumers may take from the front already."""
        while not self._mover.put_back(PUT_BACK_A_STEP):
            self._queue.dispatch()
            self._broker.kick()
            await asyncio.sleep(0)

    # ---- one step

    def _limit_left(self) -> int:
        """How many may still be tried."""
        return max(0, self.record.limit - self._matched) if self.record.limit else UNLIMITED

    def _step(self, most: int) -> int:
        """Looks at some messages, and moves at most so many; must not be interrupted."""
        clock = self._broker.clock
        self._broker.tick()
        deadline_s = clock.monotonic() + STEP_S
        tried_upto = self._matched + most
        for _ in range(LOOKED_A_STEP):
            if self._matched >= tried_upto or clock.monotonic() >= deadline_s or self.filing.must_write:
                break
            found = self._mover.fetch()
            if found is None:
                # At once: it may be there before this step's turn is over.
                self._signal.clear()
                self._queue.await_load(self._signal.set)
                return LATER
            if not found:
                return END
            taken = self._mover.taken
            assert taken is not None
            if taken.position >= self.record.end_position:
                if self._passes_newer():
                    continue
                return END
            self._newer_in_a_row = 0
            self._judge(Letter(taken.message))
            if self._stopped:
                return END
        return MORE

    def _passes_newer(self) -> bool:
        """This one came after the job began; false if there is nothing older behind it."""
        self._newer_in_a_row += 1
        if not self._by_priority or self._newer_in_a_row > NEWER_IN_A_ROW_MAX:
            self._mover.give_back_taken()
            return False
        self._mover.keep()
        return True

    def _judge(self, letter: Letter) -> None:
        now_ms = self._broker.office.now
        if not self._filter.matches(letter, now_ms):
            self._skipped += 1
            self._mover.keep()
            return
        self._matched += 1
        if self.record.dry_run:
            self._mover.keep()
            return
        archive = self.record.archive
        old = archive is not None and letter.age_s(now_ms) > archive.after_s
        to_files = old and archive is not None and archive.to_files
        try:
            if to_files:
                error = self.filing.take(letter)
            else:
                error = self._carrier.archive(letter) if old else self._carrier.replay(letter)
        except (ValueError, TypeError) as odd:
            # Clients write unexpected headers; one such message must not hold up all others.
            error = f"it cannot be sent: {odd}"
        self._pace.spend(1)
        if error is not None:
            self._failed += 1
            self._last_error = error
            self._mover.keep()
            self._stopped = self.record.stops
            return
        if to_files:
            return
        self._mover.settle()
        if old:
            self._step_archived += 1
        else:
            self._step_moved += 1

    # ---- its record

    def _current(self, state: str) -> Reprocessing:
        return msgspec.structs.replace(
            self.record,
            state=state,
            matched=self._matched,
            moved=self._moved,
            archived=self._archived,
            skipped=self._skipped,
            failed=self._failed,
            last_error=self._last_error,
        )

    def _save(self, state: str) -> None:
        """Writes down how far it is, unless that went with its queue."""
        self._saved_s = self._broker.clock.monotonic()
        self.record = self._current(state)
        if state != RUNNING:
            self.record = msgspec.structs.replace(self.record, ended_ms=self._broker.clock.now_ms())
        if not self._queue.deleted:
            self._broker.apply(commands.PutJob(self.record))
