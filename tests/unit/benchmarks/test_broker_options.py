"""The benchmark's command line: which cases, and which brokers each case is asked of."""

from __future__ import annotations

import pytest

from benchmarks.broker.__main__ import arguments
from benchmarks.broker.cases import CASES
from benchmarks.broker.peers import PEERS


def test_cases_are_named_with_commas_or_again() -> None:
    assert arguments(["--only", "durable,window1", "--only", "start"]).only == ["durable", "window1", "start"]
    assert arguments([]).only is None


def test_an_unknown_case_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        arguments(["--only", "durable,durabel"])
    assert "no such case: durabel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("case", "full", "peers"),
    [
        ("small", False, ["leveret", "rabbitmq"]),
        ("durable", False, ["leveret", "rabbitmq", "rabbitmq-quorum"]),
        ("long", False, ["leveret"]),
        ("long", True, ["leveret", "rabbitmq", "rabbitmq-quorum"]),
    ],
)
def test_a_case_is_asked_of_those_it_suits(case: str, full: bool, peers: list[str]) -> None:
    assert [peer.name for peer in PEERS.values() if CASES[case].suits(peer, full=full)] == peers


def test_repeats_stay_within_the_bounds_of_the_case() -> None:
    assert [CASES[name].repeats(3) for name in ("start", "durable", "long")] == [5, 3, 1]
