"""Kills at random points, while a publisher publishes and a pipeline carries its messages around; then the judgement.

Each cycle kills one of three: the driver, one of the Python processes that run its tasks, the broker. They are dealt
from shuffled decks, so that none is left out; the last is always the driver, and the one that comes after it finishes
what it was at. All chance comes from one seed."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.broker_process import BrokerProcess
from tests.spark.exactly_once.books import Books, FilesBooks
from tests.spark.exactly_once.driver import Driver
from tests.spark.exactly_once.findings import Findings
from tests.spark.exactly_once.jobs_books import JobsBooks
from tests.spark.exactly_once.ledger import Difference
from tests.spark.exactly_once.places import FILES, JOBS, OffsetSpec
from tests.spark.exactly_once.publisher import Publisher

__all__ = ["Campaign", "Verdict"]

log = logging.getLogger(__name__)

BOOKS: dict[str, Callable[[], Books]] = {FILES: FilesBooks, JOBS: JobsBooks}
DRIVER, EXECUTOR, BROKER = VICTIMS = ("driver", "executor", "broker")
# A start of Spark's and a batch of each query, on a busy machine.
PROGRESS_S_MAX = 180.0
FINISH_S_MAX = 400.0
GAVE_UP_MAX = 8
PUBLISHER_PAUSE_S = 0.1
# So many batches wait at most: there is always work to interrupt, and the end is not far.
BACKLOG_BATCHES = 8
# The kill comes so long after both queries are seen to work; a batch takes about a second.
DELAY_S_MAX = 3.0
# How often it does not wait for that, so that starts and recoveries are interrupted too.
IMPATIENT = 0.2
BROKER_AWAY_S_MAX = 2.0


@dataclass
class Verdict:
    published: int
    # By table, and the stream that a pipeline may end in.
    differences: dict[str, Difference]
    # Where tables do not agree with each other.
    wrong: list[str] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    # Drivers that ended by themselves, which a supervisor would have started again.
    gave_up: int = 0

    def __bool__(self) -> bool:
        """True if each message is once wherever it ought to be, and the tables agree."""
        return self.published > 0 and not any(self.differences.values()) and not self.wrong

    def __str__(self) -> str:
        kills = ", ".join(f"{self.kills[victim]} {victim}" for victim in VICTIMS)
        lines = [f"{self.published} messages, kills: {kills}; {self.gave_up} drivers gave up"]
        lines += [f"{name}: {difference}" for name, difference in self.differences.items()]
        return "\n".join([*lines, *self.wrong])


class Campaign:
    def __init__(self, directory: Path, seed: int, pipeline: str) -> None:
        self._dice = random.Random(seed)
        self.broker = BrokerProcess(directory / "broker")
        url = f"amqp://guest:guest@127.0.0.1:{self.broker.port}/"
        self.places = OffsetSpec(url, str(directory / "pipeline"), pipeline=pipeline)
        Path(self.places.root).mkdir(parents=True)
        paper = directory / "places.json"
        self.places.write(paper)
        self.driver = Driver(paper, directory / "driver.log")
        self.books = BOOKS[pipeline]()
        self._kills: Counter[str] = Counter()
        self._gave_up = 0

    def run(self, cycles: int) -> Verdict:
        self.broker.start()
        self.books.declare(self.places.url)
        publisher = Publisher(self.places.url, self.books.open, PUBLISHER_PAUSE_S, self._has_little_to_do)
        publisher.start()
        self.driver.start("run")
        for victim in self._victims(cycles - 1):
            self._cycle(victim)
        # What was interrupted goes on as it would by itself, before it is interrupted for the last time.
        self._wait_for_progress()
        time.sleep(self._dice.uniform(0.0, DELAY_S_MAX))
        self.driver.kill()
        self._note_kill(DRIVER)
        publisher.stop()
        return self._judge()

    def close(self) -> None:
        self.driver.close()
        self.broker.close()

    # ---- a cycle

    def _victims(self, count: int) -> list[str]:
        """As many, with a deck for every three: the last deck has no driver, whose turn comes after them."""
        decks = [self._dice.sample(VICTIMS, len(VICTIMS)) for _ in range(count // len(VICTIMS))]
        last = self._dice.sample((EXECUTOR, BROKER), 2)
        return [victim for deck in (*decks, last) for victim in deck][-count:] if count else []

    def _cycle(self, victim: str) -> None:
        if self._dice.random() >= IMPATIENT:
            self._wait_for_progress()
        time.sleep(self._dice.uniform(0.0, DELAY_S_MAX))
        if victim == DRIVER:
            self.driver.kill()
            self.driver.start("run")
        elif victim == EXECUTOR:
            self._kill_executor()
        else:
            self.broker.kill()
            time.sleep(self._dice.uniform(0.0, BROKER_AWAY_S_MAX))
            self.broker.start()
        self._note_kill(victim)

    def _note_kill(self, victim: str) -> None:
        self._kills[victim] += 1
        log.info("killed the %s; %d published, batches %s", victim, self.books.ledger.count, self._batches())

    def _kill_executor(self) -> None:
        """There is none while Spark starts."""
        until = time.monotonic() + PROGRESS_S_MAX
        while not self.driver.kill_executor(self._dice):
            assert time.monotonic() < until, f"there is no executor to kill:\n{self.driver.log_tail()}"
            if self._revive_driver():
                until = time.monotonic() + PROGRESS_S_MAX
            time.sleep(0.05)

    def _batches(self) -> dict[str, int]:
        return {query: self.places.batches(query) for query in self.places.queries}

    def _has_little_to_do(self) -> bool:
        return (
            self.books.ledger.count
            < (self.places.batches(self.places.queries[0]) + BACKLOG_BATCHES) * self.places.rows_per_batch
        )

    def _wait_for_progress(self) -> None:
        """Until every query has done a batch from now on."""
        before, until = self._batches(), time.monotonic() + PROGRESS_S_MAX
        while any(after <= before[query] for query, after in self._batches().items()):
            assert time.monotonic() < until, f"no progress since {before}:\n{self.driver.log_tail()}"
            if self._revive_driver():
                until = time.monotonic() + PROGRESS_S_MAX
            time.sleep(0.05)

    def _revive_driver(self) -> bool:
        """A query ends if what Spark tries again fails too often, or if a Python process takes more than ten seconds to
        start, on a machine with too much to do. Whoever runs it starts it again."""
        if self.driver.status is None:
            return False
        self._gave_up += 1
        said = self.driver.log_tail()
        assert self._gave_up <= GAVE_UP_MAX, f"the driver ended by itself for the {self._gave_up}th time:\n{said}"
        log.warning("the driver ended by itself:\n%s", said)
        self.driver.kill()
        self.driver.start("run")
        return True

    # ---- the end

    def _judge(self) -> Verdict:
        self.books.wait_until_settled(self.places.url)
        self.driver.start("finish")
        while (status := self.driver.wait(FINISH_S_MAX)) != 0:
            self._gave_up += 1
            assert self._gave_up <= GAVE_UP_MAX, f"the last run ended with {status}:\n{self.driver.log_tail()}"
            self.driver.start("finish")
        findings = Findings.read(self.places.findings)
        return Verdict(
            self.books.ledger.count,
            self.books.compare(self.places.url, findings),
            findings.wrong,
            self._kills,
            self._gave_up,
        )
