"""Definitions out and in: a whole or nothing, the same twice, and back again over a restart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leveret.broker.broker import Broker
from leveret.broker.definitions import Defaults, DefinitionService
from leveret.broker.recovery import recover
from leveret.broker.users import UserService
from leveret.catalog.definition_reader import read_definitions
from leveret.catalog.records import QueueRecord
from leveret.errors import InvalidDefinitions
from leveret.runtime.clock import Clock
from leveret.storage.store import Store, StoreSettings
from tests.unit.broker.people import LoadedDice, Town

EVERYTHING: dict[str, Any] = {
    "users": [{"name": "eve", "password_hash": "", "tags": ["monitoring"], "limits": {"max-channels": 3}}],
    "vhosts": [{"name": "v", "description": "d", "tags": ["t"]}, {"name": "/"}],
    "permissions": [{"user": "eve", "vhost": "v", "configure": "", "write": "w", "read": ".*"}],
    "topic_permissions": [{"user": "eve", "vhost": "v", "exchange": "amq.topic", "write": "a", "read": "b"}],
    "parameters": [
        {"vhost": "v", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 7}},
        {
            "vhost": "v",
            "component": "operator_policy",
            "name": "o",
            "value": {"pattern": "^q", "definition": {"max-length": 9}, "priority": 1, "apply-to": "queues"},
        },
        {"vhost": "v", "component": "federation-upstream", "name": "u", "value": {"uri": "amqp://u:secret@h"}},
    ],
    "global_parameters": [{"name": "g", "value": {"a": [1, None]}}],
    "policies": [
        {
            "vhost": "v",
            "name": "p",
            "pattern": "^q",
            "apply-to": "queues",
            "definition": {"max-length": 5},
            "priority": 2,
        }
    ],
    "queues": [
        {"name": "q", "vhost": "v", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 3}},
        {"name": "r", "vhost": "/", "durable": True, "auto_delete": True, "arguments": {}},
    ],
    "exchanges": [
        {
            "name": "e",
            "vhost": "v",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": True,
            "arguments": {"alternate-exchange": "amq.fanout"},
        }
    ],
    "bindings": [
        {
            "source": "e",
            "vhost": "v",
            "destination": "q",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {"x": 1},
        },
        {
            "source": "amq.direct",
            "vhost": "v",
            "destination": "e",
            "destination_type": "exchange",
            "routing_key": "",
            "arguments": {},
        },
    ],
}


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    yield town
    town.close()


@pytest.fixture
def definitions(town: Town) -> DefinitionService:
    return DefinitionService(town.broker, UserService(town.broker))


def taken_in(service: DefinitionService, value: Any, vhost: str | None = None, keep: bool = False) -> Any:
    return service.apply(asyncio.run(service.read(value, vhost)), keep)


def problems_of(service: DefinitionService, value: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDefinitions) as refused:
        taken_in(service, value)
    return refused.value.problems


def plain(value: Any) -> Any:
    """As it comes out of JSON, in an order of its own."""
    value = json.loads(msgspec.json.encode(value, enc_hook=int))
    return {
        section: sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))
        for section, entries in value.items()
        if isinstance(entries, list)
    }


def test_what_was_taken_in_comes_out_again(town: Town, definitions: DefinitionService) -> None:
    plan = taken_in(definitions, EVERYTHING)
    assert {step.action for step in plan.steps} == {"create"}
    out = plain(definitions.export())
    assert [one for one in out["users"] if one["name"] == "eve"] == [
        {**EVERYTHING["users"][0], "hashing_algorithm": "rabbit_password_hashing_sha256"}
    ]
    for section in (
        "topic_permissions",
        "parameters",
        "global_parameters",
        "policies",
        "queues",
        "exchanges",
        "bindings",
    ):
        assert out[section] == plain(EVERYTHING)[section], section
    assert EVERYTHING["permissions"][0] in out["permissions"]
    live = town.broker.vhosts["v"]
    assert live.queues[b"q"].record.kind == "classic"
    # Policies are in force, the operator's too.
    assert town.broker.catalog.policies["v"].of_queue(live.queues[b"q"].record).definition == {"max-length": 5}


def test_the_same_again_changes_nothing(town: Town, definitions: DefinitionService) -> None:
    taken_in(definitions, EVERYTHING)
    before = definitions.export()
    queue = town.broker.vhosts["v"].queues[b"q"]
    plan = taken_in(definitions, EVERYTHING)
    assert (plan.steps, plan.durable, plan.transient) == ([], [], [])
    assert plan.unchanged > 10
    assert definitions.export() == before
    assert town.broker.vhosts["v"].queues[b"q"] is queue


def test_everything_that_is_wrong_is_told_and_nothing_done(town: Town, definitions: DefinitionService) -> None:
    before = definitions.export()
    bad = {
        "vhosts": [{"name": "new"}, {"name": "w", "default_queue_type": "nonsense"}],
        "users": [{"name": "new", "tags": "", "limits": {"nonsense": 1}}],
        "permissions": [
            {"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""},
            {"user": "ann", "vhost": "nowhere", "configure": "", "write": "", "read": ""},
            {"user": "ann", "vhost": "/", "configure": "(", "write": "", "read": ""},
        ],
        "parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": {}}],
        "policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"max-length": "5"}}],
        "queues": [
            {"name": "ok", "vhost": "/", "arguments": {}},
            {"name": "q", "vhost": "/", "arguments": {"x-max-length": -1}},
            {"name": "q", "vhost": "nowhere", "arguments": {}},
            {"name": "q", "vhost": "/", "arguments": {"x-queue-type": "nonsense"}},
        ],
        "exchanges": [{"name": "e", "vhost": "/", "type": "nonsense"}],
        "bindings": [
            {"source": "amq.direct", "vhost": "/", "destination": "none", "destination_type": "queue"},
            {"source": "none", "vhost": "/", "destination": "ok", "destination_type": "queue"},
        ],
    }
    told = dict(problems_of(definitions, bad))
    assert set(told) == {
        "vhosts[1]",
        "users[0]",
        "permissions[0]",
        "permissions[1]",
        "permissions[2]",
        "parameters[0]",
        "policies[0].definition.max-length",
        "queues[1].arguments.x-max-length",
        "queues[2]",
        "queues[3].arguments.x-queue-type",
        "exchanges[0]",
        "bindings[0]",
        "bindings[1]",
    }
    assert told["queues[1].arguments.x-max-length"] == "{value_negative,-1}"
    assert told["permissions[0]"] == "there is no user 'nobody'"
    assert definitions.export() == before


def test_a_queue_that_differs_stands_against_the_whole_unless_it_may_stay(
    town: Town, definitions: DefinitionService
) -> None:
    taken_in(definitions, EVERYTHING)
    changed = {
        "queues": [{**EVERYTHING["queues"][0], "arguments": {"x-max-length": 4}}, {"name": "new", "vhost": "v"}],
        "exchanges": [{**EVERYTHING["exchanges"][0], "type": "direct"}],
    }
    told = problems_of(definitions, changed)
    assert [place for place, _ in told] == ["exchanges[0].type", "queues[0].arguments.x-max-length"]
    assert "received '4' but current is '3'" in told[1][1]
    assert b"new" not in town.broker.vhosts["v"].queues
    plan = taken_in(definitions, changed, keep=True)
    assert [place for place, _ in plan.kept] == ["exchanges[0].type", "queues[0].arguments.x-max-length"]
    assert town.broker.vhosts["v"].queues[b"q"].record.arguments == {"x-max-length": 3}
    assert b"new" in town.broker.vhosts["v"].queues


def test_a_policy_with_mirroring_is_taken_and_said_to_have_no_effect(
    town: Town, definitions: DefinitionService
) -> None:
    given = {"policies": [{"vhost": "/", "name": "ha", "pattern": "", "definition": {"ha-mode": "all"}}]}
    plan = definitions.compare(given)
    text = "kept as it is, but there are no mirrored queues: ha-mode would have no effect"
    assert (plan.problems, plan.notices) == ([], [("policies[0]", text)])
    definitions.apply(read_definitions(given)[0])
    found = town.broker.catalog.policies["/"].find("ha")
    assert found is not None and found.definition == {"ha-mode": "all"}, "no other policy takes its place"


def test_two_entries_for_one_queue_must_agree(definitions: DefinitionService) -> None:
    one = {"name": "q", "vhost": "/", "arguments": {}}
    taken_in(definitions, {"queues": [one, one]})
    two = {**one, "name": "r"}
    told = problems_of(definitions, {"queues": [two, {**two, "durable": False}]})
    assert [place for place, _ in told] == ["queues[1].durable"]


def test_what_is_there_anyway_is_passed_over(town: Town, definitions: DefinitionService) -> None:
    plan = taken_in(
        definitions,
        {
            "queues": [{"name": "amq.gen-x", "vhost": "/"}],
            "exchanges": [
                {"name": "", "vhost": "/", "type": "direct"},
                {"name": "amq.own", "vhost": "/", "type": "topic"},
            ],
            "bindings": [{"source": "", "vhost": "/", "destination": "q", "destination_type": "queue"}],
            "global_parameters": [{"name": "leveret.definitions", "value": 1}],
            "nonsense": [1],
        },
    )
    assert plan.steps == []


def test_more_queues_than_the_limit_are_refused(definitions: DefinitionService) -> None:
    limits = {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 2}}
    queues = [{"name": f"q{number}", "vhost": "/"} for number in range(3)]
    told = problems_of(definitions, {"parameters": [limits], "queues": queues})
    assert told == [("queues", "virtual host '/' would have 3 queues, and its limit is 2")]
    taken_in(definitions, {"parameters": [limits], "queues": queues[:2]})


def test_a_comparison_changes_nothing_and_shows_no_secret(definitions: DefinitionService) -> None:
    before = definitions.export()
    plan = definitions.compare(
        {**EVERYTHING, "users": [{"name": "ann", "password": "canary", "tags": "x"}], "exchanges": [5]}
    )
    assert ("exchanges[0]", "it must be an object") in plan.problems
    (step,) = [step for step in plan.steps if step.kind == "user"]
    assert (step.action, step.fields) == ("change", ("password_hash", "tags"))
    assert "canary" not in repr(plan)
    assert definitions.export() == before


def test_into_one_virtual_host_only(town: Town, definitions: DefinitionService) -> None:
    taken_in(definitions, {"vhosts": [{"name": "v"}]})
    taken_in(
        definitions,
        {"users": [{"name": "eve", "tags": "administrator"}], "queues": [{"name": "q", "vhost": "/"}]},
        vhost="v",
    )
    assert "eve" not in town.broker.catalog.users
    assert list(town.broker.vhosts["v"].queues) == [b"q"]
    assert not town.broker.vhosts["/"].queues
    assert definitions.export("v")["queues"] == [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}]


def test_what_goes_with_a_connection_is_not_exported(town: Town, definitions: DefinitionService) -> None:
    town.topology.declare_queue(town.ann, "own", True, True, False, {})
    town.topology.declare_queue(town.ann, "passing", False, False, False, {})
    assert definitions.export()["queues"] == []


# ---- with a disk


class House:
    """A broker with a store, which can be opened again."""

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory, StoreSettings(sync="off"), lambda: 7)
        self.broker = Broker(LoadedDice(), Clock(), self.store)
        self.definitions = DefinitionService(self.broker, UserService(self.broker))

    def leave(self) -> None:
        self.broker.close()
        self.store.abandon()


def opened(directory: Path, files: dict[str, Any] | None = None, skip: bool = True, **defaults: str) -> House:
    house = House(directory)
    sources = [(name, json.dumps(value).encode()) for name, value in (files or {}).items()]

    def prepare(fresh: bool) -> None:
        house.definitions.load_at_boot(sources, skip, Defaults(**defaults) if fresh else None)

    try:
        recover(house.broker, prepare)
    except BaseException:
        house.leave()
        raise
    return house


def test_a_start_imports_files_and_the_next_one_knows_them(tmp_path: Path) -> None:
    files = {"a.json": {"vhosts": [{"name": "v"}]}, "b.json": {"queues": [{"name": "q", "vhost": "v"}]}}
    house = opened(tmp_path, files)
    assert list(house.broker.catalog.vhosts) == ["v"]
    assert list(house.broker.catalog.users) == ["guest"]
    assert ("guest", "v") in house.broker.catalog.permissions
    queue_id = house.broker.vhosts["v"].queues[b"q"].record.id
    assert queue_id > 0
    assert "leveret.definitions" not in {one["name"] for one in house.definitions.export()["global_parameters"]}
    house.leave()

    house = opened(tmp_path, files)
    record: QueueRecord = house.broker.vhosts["v"].queues[b"q"].record
    assert record.id == queue_id
    house.broker.close()
    house.leave()


def test_what_an_operator_changed_stays_until_the_file_changes(tmp_path: Path) -> None:
    files = {"a.json": {"users": [{"name": "eve", "password_hash": "", "tags": "monitoring"}]}}
    house = opened(tmp_path, files)
    assert sorted(house.broker.catalog.users) == ["eve"]
    assert list(house.broker.catalog.vhosts) == ["/"]
    house.leave()
    house = House(tmp_path)
    recover(house.broker, lambda fresh: None)
    UserService(house.broker).put("eve", "", [])
    assert not house.definitions.load_at_boot([("a.json", json.dumps(files["a.json"]).encode())])
    assert house.broker.catalog.users["eve"].tags == ()
    assert house.definitions.load_at_boot([("a.json", json.dumps(files["a.json"]).encode())], skip_if_unchanged=False)
    assert house.broker.catalog.users["eve"].tags == ("monitoring",)
    house.leave()


def test_a_start_with_a_bad_file_leaves_nothing_behind(tmp_path: Path) -> None:
    bad = {"vhosts": [{"name": "v"}], "queues": [{"name": "q", "vhost": "v", "arguments": {"x-max-length": -1}}]}
    with pytest.raises(InvalidDefinitions, match=r"a.json: queues\[0\].arguments.x-max-length: .value_negative,-1."):
        opened(tmp_path, {"a.json": bad})
    house = opened(tmp_path)
    assert list(house.broker.catalog.vhosts) == ["/"]
    assert list(house.broker.catalog.users) == ["guest"]
    house.leave()


def test_files_that_are_no_json_are_named(tmp_path: Path) -> None:
    house = House(tmp_path)
    with pytest.raises(InvalidDefinitions, match=r"a.json: it is no JSON"):
        recover(house.broker, lambda fresh: house.definitions.load_at_boot([("a.json", b"{")]) and None)
    house.leave()


def test_a_queue_that_differs_does_not_keep_a_node_down(tmp_path: Path) -> None:
    one = {"queues": [{"name": "q", "vhost": "/", "arguments": {}}]}
    house = opened(tmp_path, {"a.json": {"vhosts": [{"name": "/"}], **one}})
    house.leave()
    two = {"queues": [{"name": "q", "vhost": "/", "arguments": {"x-max-length": 5}}, {"name": "r", "vhost": "/"}]}
    house = opened(tmp_path, {"a.json": two})
    assert house.broker.vhosts["/"].queues[b"q"].record.arguments == {}
    assert b"r" in house.broker.vhosts["/"].queues
    house.leave()


def test_transient_things_do_not_come_back(tmp_path: Path) -> None:
    house = opened(tmp_path)
    plan = taken_in(
        house.definitions,
        {
            "queues": [{"name": "q", "vhost": "/", "durable": False}, {"name": "r", "vhost": "/"}],
            "bindings": [{"source": "amq.topic", "vhost": "/", "destination": "q", "destination_type": "queue"}],
        },
    )
    assert (len(plan.durable), len(plan.transient)) == (1, 2)
    assert set(house.broker.vhosts["/"].queues) == {b"q", b"r"}
    house.leave()


def test_defaults_are_those_of_the_settings(tmp_path: Path) -> None:
    house = opened(tmp_path, user="boss", password="x", vhost="main")
    assert list(house.broker.catalog.vhosts) == ["main"]
    assert house.broker.catalog.users["boss"].tags == ("administrator",)
    assert ("boss", "main") in house.broker.catalog.permissions
    house.leave()
    house = opened(tmp_path / "other", user="")
    assert (list(house.broker.catalog.vhosts), list(house.broker.catalog.users)) == (["/"], [])
    house.leave()
