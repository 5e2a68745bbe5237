"""Backups over HTTP: who is refused and why, what the audit log has, and what is told of damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.testing import Broker
from tests.http_client import Api


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker({"data_dir": str(tmp_path / "data")}) as broker:
        yield broker


@pytest.fixture
def api(broker: Broker) -> Api:
    return Api(broker)


def test_one_from_begin_to_end(api: Api, tmp_path: Path) -> None:
    assert api.get("/backup").body == {"state": "none"}
    begun = api.post("/backup", {"to": str(tmp_path / "backup")})
    assert begun.status == 202 and begun.body["to"] == str(tmp_path / "backup")
    while (status := api.get("/backup").body)["state"] == "running":
        pass
    assert status["state"] == "done" and status["files"] == status["files_total"] > 0, status
    assert status["ended_at"] >= status["started_at"] > 0
    assert (tmp_path / "backup" / "BACKUP").exists()
    (line,) = [line for line in api.get("/audit").body if line["action"] == "POST /api/backup"]
    assert line["names"] == {"to": str(tmp_path / "backup")} and line["outcome"] == "done"


def test_what_is_refused(api: Api, tmp_path: Path) -> None:
    for sent, why in (
        ({}, "key_missing,to"),
        ({"to": 5}, "must be a text"),
        ({"to": "here"}, "no absolute path"),
        ({"to": str(tmp_path / "data" / "here")}, "one within the other"),
        ({"to": str(tmp_path)}, "one within the other"),
        ({"to": str(tmp_path / "a\x00b")}, ""),
    ):
        reply = api.post("/backup", sent)
        assert reply.status == 400 and why in str(reply.body), reply
    assert api.get("/backup").body == {"state": "none"}


def test_damage_is_told(api: Api, broker: Broker) -> None:
    assert api.get("/storage/damages").body == []
    broker.call(lambda node: node.store._report.add(Path("/data/log/1.segment"), 5, 6, "it is missing"))
    assert api.get("/storage/damages").body == [
        {"file": "/data/log/1.segment", "offset": 5, "size": 6, "what": "it is missing"}
    ]
