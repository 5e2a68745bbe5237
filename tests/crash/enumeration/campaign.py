"""Many faults, one after the other, on a few benches side by side: most of a case is waiting."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from tests.crash.enumeration.bench import Bench, Outcome, Template
from tests.crash.enumeration.calls import Fault
from tests.crash.enumeration.cases import SHORT_FORM, SHORT_FORM_OF_START, Choice, Counts, chosen

BENCHES: Final = 3
# What a run of the script counts is not quite the same each time: so many faults may find no call to strike.
_MISSED_PART_MAX: Final = 0.1
# How long a case may go on that was under way when the others were called off.
_CASE_S_MAX: Final = 60.0


@dataclass
class Campaign:
    counts: Counts
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def wrong(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.findings]

    @property
    def missed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if not outcome.was_hit]

    def summary(self) -> str:
        endings: dict[str, int] = {}
        for outcome in self.outcomes:
            endings[outcome.ending] = endings.get(outcome.ending, 0) + 1
        told = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
        return (
            f"{len(self.outcomes)} faults ({len(self.missed)} found no call), {told}; {len(self.wrong)} with findings"
        )

    def check(self, choice: Choice) -> None:
        """Fails with what is wrong, and how to see it again."""
        shown = "\n".join(f"{outcome}" for outcome in self.wrong[:20])
        names = ",".join(str(outcome.fault) for outcome in self.wrong[:20])
        hint = f"again: {choice.repeated_by}; only these: LEVERET_CRASH_ENUMERATION={names}"
        assert not self.wrong, f"{self.summary()}\n{self.counts}\n{hint}\n{shown}"
        missed_max = 2 + _MISSED_PART_MAX * len(self.outcomes)
        assert choice.is_wish or len(self.missed) <= missed_max, f"{self.summary()}\n{self.counts}"


def run_campaign(directory: Path, is_first_start: bool = False, benches: int = BENCHES) -> tuple[Campaign, Choice]:
    """Makes the template, unless it is about the first start of a broker; counts, chooses and runs."""
    with Bench(directory / "first") as first:
        template = Template() if is_first_start else first.make_template(directory / "template")
        counts = first.count(template)
    choice = chosen(counts, SHORT_FORM_OF_START if is_first_start else SHORT_FORM)
    campaign = Campaign(counts)
    campaign.outcomes = list(outcomes_of(directory, template, counts, choice.faults, benches))
    return campaign, choice


def outcomes_of(
    directory: Path, template: Template, counts: Counts, faults: Iterable[Fault], benches: int
) -> Iterator[Outcome]:
    """Each as soon as it is there."""
    waiting: SimpleQueue[Fault] = SimpleQueue()
    for fault in faults:
        waiting.put(fault)
    done: SimpleQueue[Outcome | BaseException | None] = SimpleQueue()

    def work(number: int) -> None:
        try:
            with Bench(directory / f"bench-{number}") as bench:
                while True:
                    fault = waiting.get_nowait()
                    done.put(bench.run(template, fault, is_orderly(counts, fault)))
        except Empty:
            done.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the outcomes are read
            done.put(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(benches)]
    for thread in threads:
        thread.start()
    working = benches
    try:
        while working:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None:
                working -= 1
            else:
                yield outcome
    finally:
        # If it ends early, by an error or a timeout, nobody begins another case.
        with suppress(Empty):
            while True:
                waiting.get_nowait()
        for thread in threads:
            thread.join(_CASE_S_MAX)


def is_orderly(counts: Counts, fault: Fault) -> bool:
    """Whether the broker is stopped or killed if it goes on: one and the other, but stopped if the fault is to strike
    while it stops."""
    return counts.phase_of(fault) == "stop" or (fault.number + fault.error) % 2 == 0
