"""Routing keys at the publish path's gate: asked for where the gate says so, when they change, and nowhere else."""

from __future__ import annotations

import pytest

from leveret.core.connection.router import Exchange
from leveret.errors import SoftError
from tests.unit.queues.dataplane import Workbench, publish_frames


def opened() -> Workbench:
    bench = Workbench()
    bench.open_channel()
    return bench


def test_keys_are_asked_for_when_the_gate_says_so_and_only_when_they_change() -> None:
    bench = opened()
    bench.gate.keyed = True
    for key in ("a", "a", "b", "a", "a"):
        bench.feed(publish_frames(1, "", key, b"x"))
    assert bench.gate.checked == [b""]
    assert bench.gate.keys == [b"a", b"b", b"a"]
    bench.connection.find(1).publish_path.forget_permissions()
    bench.feed(publish_frames(1, "", "a", b"x"))
    assert (bench.gate.checked, bench.gate.keys) == ([b"", b""], [b"a", b"b", b"a", b"a"])


def test_no_key_is_asked_for_otherwise() -> None:
    bench = opened()
    for key in ("a", "b", "a"):
        bench.feed(publish_frames(1, "", key, b"x"))
    assert (bench.gate.checked, bench.gate.keys) == ([b""], [])


def test_a_message_whose_key_is_refused_goes_nowhere_and_the_next_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = opened()
    queue = bench.add_queue("q")
    bench.gate.keyed = True

    def refuse(exchange: Exchange, key: bytes) -> None:
        if key == b"other":
            raise SoftError(403, "no")

    monkeypatch.setattr(bench.gate, "check_key", refuse)
    with pytest.raises(SoftError):
        bench.feed(publish_frames(1, "", "other", b"x"))
    bench.connection.find(1).publish_path.abandon()
    bench.feed(publish_frames(1, "", "q", b"x"))
    assert queue.ready_count() == 1
