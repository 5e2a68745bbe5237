"""Which faults there are: each call of the script, counted on a run without faults, with each error it can give.

`LEVERET_CRASH_ENUMERATION` says how many of them are tried: `all`, or every so-manieth, beginning at a place that
`LEVERET_CRASH_SEED` chooses; or it is a list of single ones, as a finding names them."""

import os
from dataclasses import dataclass
from typing import Final

from tests.crash.enumeration.calls import ERRORS, Fault, Kind

# How many are tried unless somebody wants more, of the workload and of a first start: a minute and a half of a small
# machine.
SHORT_FORM: Final = 90
SHORT_FORM_OF_START: Final = 30


@dataclass(frozen=True)
class Counts:
    """How many calls of each kind there were: when the broker served, when the script had ended, and at the end."""

    served: dict[Kind, int]
    worked: dict[Kind, int]
    stopped: dict[Kind, int]

    def phase_of(self, fault: Fault) -> str:
        if fault.number <= self.served[fault.kind]:
            return "start"
        return "script" if fault.number <= self.worked[fault.kind] else "stop"

    def __str__(self) -> str:
        return ", ".join(
            f"{kind.name.lower()} {self.served[kind]}+{self.worked[kind] - self.served[kind]}"
            f"+{self.stopped[kind] - self.worked[kind]}"
            for kind in Kind
        )


def all_faults(counts: Counts) -> list[Fault]:
    """Of one kind after the other, in the order of the calls."""
    return [
        Fault(kind.name, number, error)
        for kind in Kind
        for number in range(1, counts.stopped[kind] + 1)
        for error in ERRORS[kind]
    ]


@dataclass(frozen=True)
class Choice:
    faults: list[Fault]
    # What to set to get the same choice again.
    repeated_by: str
    # Single ones that somebody has asked for: their calls may not even be made.
    is_wish: bool = False


def chosen(counts: Counts, short_form: int = SHORT_FORM) -> Choice:
    wish = os.environ.get("LEVERET_CRASH_ENUMERATION", "")
    everything = all_faults(counts)
    if wish == "all":
        return Choice(everything, "LEVERET_CRASH_ENUMERATION=all")
    if ":" in wish:
        return Choice([Fault.parse(text) for text in wish.split(",")], f"LEVERET_CRASH_ENUMERATION={wish}", True)
    count = int(wish) if wish else short_form
    # The same slice in each run: a red run is the fault of the change at hand. `make crash` tries all.
    seed = int(os.environ.get("LEVERET_CRASH_SEED") or 0)
    return Choice(slice_of(everything, count, seed), f"LEVERET_CRASH_SEED={seed} LEVERET_CRASH_ENUMERATION={count}")


def slice_of(faults: list[Fault], count: int, seed: int) -> list[Fault]:
    """So many of them at even distances: all kinds and phases in each slice, and another slice with each seed."""
    step = max(1, -(-len(faults) // count))
    return faults[seed % step :: step]
