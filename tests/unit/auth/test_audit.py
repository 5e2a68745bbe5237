"""The audit log: what is noted of whom, that it is bounded, and that it outlives the broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

from leveret.auth.audit import PENDING_MAX, REMEMBERED_MAX, STRANGERS_PER_SECOND_MAX, Actor, Audit
from leveret.catalog import commands
from leveret.catalog.records import BindingRecord, QueueRecord
from leveret.runtime.rolling_file import RollingFile

ANN = Actor("ann", "127.0.0.1:5", "AMQP 0-9-1")


def test_commands_are_told_by_names_alone() -> None:
    audit = Audit(lambda: 5.0)
    by = SimpleNamespace(actor=ANN)
    audit.changed(by, commands.DeclareQueue(QueueRecord("/", "q", "classic", True, False, 0, {"x-secret": "canary"})))
    audit.changed(by, commands.Unbind(BindingRecord("/", "e", True, "q", "k", {"x": "canary"})))
    audit.changed(by, commands.DeleteExchange("/", "e"))
    audit.changed(SimpleNamespace(actor=None), commands.DeleteExchange("/", "e"))
    assert [(noted.action, noted.names) for noted in audit.recent] == [
        ("queue.declare", {"vhost": "/", "queue": "q"}),
        ("binding.delete", {"vhost": "/", "exchange": "e", "queue": "q", "routing_key": "k"}),
        ("exchange.delete", {"vhost": "/", "exchange": "e"}),
    ]
    assert {(noted.user, noted.peer, noted.time, noted.outcome) for noted in audit.recent} == {
        ("ann", "127.0.0.1:5", 5.0, "done")
    }
    assert "canary" not in repr(audit.recent)


def test_memory_is_bounded() -> None:
    audit = Audit(lambda: 5.0)
    for number in range(REMEMBERED_MAX + 10):
        audit.note(ANN, "a", {"n": number, "long": "x" * 10_000, "many": ["y" * 300] * 1000})
    assert len(audit.recent) == REMEMBERED_MAX
    assert audit.recent[-1].names["n"] == REMEMBERED_MAX + 9
    assert len(audit.recent[-1].names["long"]) == 255
    assert len(audit.recent[-1].names["many"]) == 100


def test_names_that_are_no_text_are_noted_all_the_same(tmp_path: Path) -> None:
    audit = Audit(lambda: 5.0, RollingFile(tmp_path, "audit", 1 << 20))
    audit.note(ANN, "a", {"queue": "\udcff"})
    assert audit.recent[-1].names == {"queue": "\ufffd"}


def test_what_comes_faster_than_it_is_written_is_dropped_and_told(tmp_path: Path) -> None:
    audit = Audit(lambda: 5.0, RollingFile(tmp_path, "audit", 1 << 30))
    for _ in range(PENDING_MAX + 7):
        audit.note(ANN, "a", {})
    assert audit.dropped_total == 7
    audit._taken()
    audit.note(ANN, "b", {})
    assert (audit.recent[-1].action, audit.recent[-1].dropped) == ("b", 7)


def test_strangers_do_not_push_others_out() -> None:
    now = [100.0]
    audit = Audit(lambda: now[0])
    audit.note(ANN, "kept", {})
    for _ in range(5000):
        audit.note(Actor("", "10.0.0.1", "http"), "PUT", {}, "refused", 401)
    assert audit.recent[0].action == "kept"
    assert len(audit.recent) == 1 + STRANGERS_PER_SECOND_MAX
    now[0] = 101.0
    audit.note(Actor("", "10.0.0.1", "http"), "PUT", {}, "refused", 401)
    assert audit.recent[-1].dropped == 5000 - STRANGERS_PER_SECOND_MAX


def test_lines_outlive_the_broker(tmp_path: Path) -> None:
    async def live(action: str) -> list[str]:
        audit = Audit(lambda: 5.0, RollingFile(tmp_path, "audit", 1 << 20))
        audit.start(asyncio.get_running_loop())
        audit.note(ANN, action, {"queue": "q"}, "refused", 401)
        await audit.stop()
        return [noted.action for noted in audit.recent]

    assert asyncio.run(live("first")) == ["first"]
    with (tmp_path / "audit.log").open("ab") as file:
        file.write(b'{"torn')
    assert asyncio.run(live("second")) == ["first", "second"]
    line = json.loads((tmp_path / "audit.log").read_bytes().splitlines()[0])
    assert line == {
        "time": 5.0,
        "user": "ann",
        "peer": "127.0.0.1:5",
        "via": "AMQP 0-9-1",
        "action": "first",
        "names": {"queue": "q"},
        "outcome": "refused",
        "status": 401,
    }


def test_a_disk_that_fails_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    async def live() -> int:
        # A file where the directory should be.
        audit = Audit(lambda: 5.0, RollingFile(tmp_path / "file", "audit", 1 << 20))
        audit._loop = asyncio.get_running_loop()
        audit.note(ANN, "a", {})
        audit._write(audit._taken())
        audit.note(ANN, "b", {})
        return len(audit.recent)

    assert asyncio.run(live()) == 2


def test_refusals_of_one_user_wash_away_neither_changes_nor_those_of_others(tmp_path: Path) -> None:
    eve, bob = Actor("eve", "10.0.0.1", "http"), Actor("bob", "10.0.0.2", "http")
    now = [100.0]
    files = [RollingFile(tmp_path, name, 1 << 20) for name in ("audit", "refused")]

    async def live() -> Audit:
        audit = Audit(lambda: now[0], *files)
        audit.start(asyncio.get_running_loop())
        audit.note(ANN, "kept", {})
        audit.note(bob, "kept too", {}, "refused", 401)
        for _ in range(5 * PENDING_MAX):
            now[0] += 0.01
            audit.note(eve, "PUT", {}, "refused", 401)
        audit.note(ANN, "afterwards", {})
        await audit.stop()
        return audit

    audit = asyncio.run(live())
    actions = [noted.action for noted in audit.recent]
    assert (actions[:2], actions[-1]) == (["kept", "kept too"], "afterwards")
    # 500 seconds: a hundred at once, and one in ten seconds.
    assert 100 <= actions.count("PUT") <= 160
    told = sum(noted.dropped for noted in audit.recent if noted.user == "eve")
    assert told > 4 * PENDING_MAX
    lines = [json.loads(line)["action"] for line in (tmp_path / "audit.log").read_bytes().splitlines()]
    assert lines == ["kept", "afterwards"]
    assert (tmp_path / "refused.log").stat().st_size < 100_000
    again = Audit(lambda: now[0], *files)

    async def start_again() -> list[str]:
        again.start(asyncio.get_running_loop())
        await again.stop()
        return [noted.action for noted in again.recent]

    assert asyncio.run(start_again()) == actions


def test_the_room_for_lines_is_divided(tmp_path: Path) -> None:
    audit = Audit(lambda: 5.0, *(RollingFile(tmp_path, name, 0) for name in ("audit", "refused")))
    audit.resize(4000)
    assert audit.bytes_max == 4000
    assert [file.bytes_max for file in (audit._file, audit._refused_file) if file is not None] == [3000, 1000]
