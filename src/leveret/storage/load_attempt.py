"""One load on its way from disk: what is read for it, what became of that, and whether it has to be tried again.

Says what an error means for the load and decides nothing else. Never touches a file; the loader reads."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from leveret.core.log.journal import Journal
from leveret.core.log.load import Load
from leveret.runtime.read_errors import ReadError, kind_of
from leveret.storage.quarantine import DAMAGED, UNREADABLE, GivenUp

# How often something is read that the disk says it cannot read, before it is read record by record.
MEDIUM_TRIES = 3
# The first wait before another try; each that follows is twice as long, up to the last.
RETRY_S_MIN = 0.05
RETRY_S_MAX = 2.0


class LoadTarget(Protocol):
    """Whoever has messages on disk: a queue, or what is delayed."""

    @property
    def name(self) -> bytes: ...

    def take_load(self, journal: Journal) -> Load | None: ...

    def is_loading(self, load: Load) -> bool: ...

    def finish_load(self, load: Load) -> None: ...

    def lacks_next(self) -> bool: ...


class Read(NamedTuple):
    """One read: all of an extent of the load, or a single record of it; then `record` is its number, else -1."""

    extent: int
    record: int
    segment: int
    offset: int
    size: int
    place: int


class Verdict(Enum):
    READ = "everything was read"
    WAIT = "something is short: to be tried again later"
    RECORDS = "to be read record by record"
    UNREADABLE = "single records cannot be read"
    STOP = "the error has another cause than the disk or a shortage"


@dataclass(slots=True, eq=False)
class Attempt:
    queue: LoadTarget
    load: Load
    reads: list[Read] = field(default_factory=list)
    tries: int = 0
    # The reads of the last try that failed, with their error numbers.
    failed: dict[Read, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reads = [Read(number, -1, *extent) for number, extent in enumerate(self.load.extents)]

    def judge(self, errors: dict[Read, int]) -> Verdict:
        """What to do after a try, by the error numbers of its reads."""
        self.failed = {read: number for read, number in errors.items() if number}
        if not self.failed:
            return Verdict.READ
        self.tries += 1
        kinds = {kind_of(number) for number in self.failed.values()}
        if ReadError.OTHER in kinds:
            return Verdict.STOP
        if ReadError.SHORTAGE in kinds or self.tries < MEDIUM_TRIES:
            return Verdict.WAIT
        return Verdict.UNREADABLE if all(read.record >= 0 for read in self.failed) else Verdict.RECORDS

    def split(self) -> None:
        """Reads what failed record by record from now on."""
        reads = []
        for read in self.reads:
            if read in self.failed and read.record < 0:
                for i, segment, offset, length, place in self.load.records_of(read.extent):
                    reads.append(Read(read.extent, i, segment, offset, length, place))
            else:
                reads.append(read)
        self.reads = reads

    def give_up_failed(self) -> None:
        """The records that cannot be read are lost to the queue; everything else was read."""
        for read in self.failed:
            assert read.record >= 0
            self.load.give_up(read.record)

    @property
    def wait_s(self) -> float:
        return float(min(RETRY_S_MIN * 2 ** min(self.tries, 16), RETRY_S_MAX))

    @property
    def is_news(self) -> bool:
        """Whether this failure is worth a line in the log: the first, and then ever more seldom."""
        return self.tries & (self.tries - 1) == 0

    def error_number(self) -> int:
        """The one to be told, if there are several."""
        return next(iter(self.failed.values()), errno.EIO)

    def given_up(self, names: dict[int, str]) -> list[GivenUp]:
        """What is lost of the load, as it is written down. `names` are the files by segment."""
        found = []
        for i, is_unreadable in self.load.lost.items():
            position, location, length, _ = self.load.slot(i)
            found.append(
                GivenUp(
                    owner_name(self.queue),
                    position,
                    names.get(location >> 32, "?"),
                    location & 0xFFFFFFFF,
                    length,
                    UNREADABLE if is_unreadable else DAMAGED,
                )
            )
        return found


def owner_name(queue: LoadTarget) -> str:
    """The queue with its vhost; an exchange that delays messages by its name alone."""
    name = queue.name.decode("utf-8", "replace")
    record = getattr(getattr(queue, "owner", queue), "record", None)
    return f"{name} in vhost {record.vhost}" if record is not None else name
