"""The enumeration turns red when a rule is broken: the same cases on brokers that take an error for success, or a
shortage for damage. And its parts do what they say."""

import errno
from pathlib import Path

import pytest

from tests.crash.enumeration.bench import Bench
from tests.crash.enumeration.calls import ERRORS, Fault, Kind
from tests.crash.enumeration.cases import Counts, all_faults, slice_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def first_loss(directory: Path, breakage: str, kind: Kind, error: int) -> str | None:
    """The first call of this kind whose failure costs a message, of all that the script makes; None if none does."""
    with Bench(directory / "bench", breakage) as bench:
        template = bench.make_template(directory / "template")
        counts = bench.count(template)
        for number in range(counts.served[kind] + 1, counts.worked[kind] + 1):
            outcome = bench.run(template, Fault(kind.name, number, error), orderly=False)
            if any(finding.startswith(("lost", "hole")) for finding in outcome.findings):
                return str(outcome)
    return None


@pytest.mark.parametrize(
    ("breakage", "kind", "error"),
    [
        ("take-shortage-for-damage", Kind.OPEN, errno.EMFILE),
        ("ignore-write-errors", Kind.WRITE, errno.EIO),
        ("ignore-sync-errors", Kind.SYNC, errno.EIO),
    ],
)
def test_a_broken_broker_is_found_out(tmp_path: Path, breakage: str, kind: Kind, error: int) -> None:
    assert first_loss(tmp_path, breakage, kind, error), f"nobody notices {breakage}"


# ---- which cases there are


def counts_of(**numbers: int) -> Counts:
    return Counts(*({kind: numbers.get(kind.name.lower(), 0) * part // 3 for kind in Kind} for part in (1, 2, 3)))


def test_every_call_is_tried_with_every_error() -> None:
    counts = counts_of(open=3, accept=3)
    faults = all_faults(counts)
    assert len(faults) == len(set(faults)) == 3 * len(ERRORS[Kind.OPEN]) + 3 * len(ERRORS[Kind.ACCEPT])
    assert [counts.phase_of(Fault("OPEN", number, errno.EMFILE)) for number in (1, 2, 3)] == ["start", "script", "stop"]


def test_slices_are_even_and_together_everything() -> None:
    faults = all_faults(counts_of(open=30, read=30, sync=30))
    slices = [slice_of(faults, 20, seed) for seed in range(len(faults))]
    assert set().union(*slices) == set(faults)
    assert all(
        len(each) <= 20 and {fault.kind for fault in each} == {Kind.OPEN, Kind.READ, Kind.SYNC} for each in slices
    )


def test_a_fault_is_named_and_read_back() -> None:
    for fault in (Fault("OPEN", 7, errno.EMFILE), Fault("READ", 1, 0)):
        assert Fault.parse(str(fault)) == fault
    assert str(Fault("READ", 1, 0)) == "read:1:short"


def test_what_may_end_a_broker() -> None:
    may = [Fault("WRITE", 1, errno.ENOSPC), Fault("SYNC", 1, errno.EIO), Fault("RENAME", 1, errno.EIO)]
    may_not = [
        Fault("OPEN", 1, errno.EMFILE),
        Fault("MKDIR", 1, errno.ENOSPC),
        Fault("READ", 1, errno.EIO),
        Fault("ACCEPT", 1, errno.EPROTO),
        Fault("WRITE", 1, 0),
    ]
    assert all(fault.may_stop for fault in may) and not any(fault.may_stop for fault in may_not)
