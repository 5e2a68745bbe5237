"""The service for policies: what it checks, what it tells the virtual host, and that policies survive."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leveret.broker.broker import Broker
from leveret.broker.policies import Policies
from leveret.broker.recovery import recover
from leveret.catalog import commands
from leveret.catalog.records import ExchangeRecord, Policy, QueueRecord, Vhost
from leveret.errors import InvalidPolicy
from leveret.queues.classic import Classic
from leveret.runtime.clock import Clock
from leveret.storage.store import Store, StoreSettings
from tests.unit.broker.people import LoadedDice, Town
from tests.unit.catalog.naming import exchange, queue


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    yield town
    town.close()


@pytest.fixture
def policies(town: Town) -> Policies:
    return Policies(town.broker)


def undated(policy: Policy | None) -> Policy:
    """Without the moment when it was set, which must be of today."""
    assert policy is not None and abs(policy.set_at_ms / 1000 - time.time()) < 3600
    return msgspec.structs.replace(policy, set_at_ms=0)


@pytest.fixture
def governed(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, dict[str, Any]]:
    """The arguments that queues were last told to live by."""
    told: dict[bytes, dict[str, Any]] = {}

    def govern(self: Classic, queue: Any, arguments: dict[str, Any], since_ms: int = 0) -> None:
        told[queue.name] = arguments

    monkeypatch.setattr(Classic, "govern", govern, raising=False)
    return told


def test_a_policy_is_set_found_listed_and_cleared(policies: Policies) -> None:
    assert policies.put("/", "b", "^q", {"message-ttl": 5}, priority=3, apply_to="queues")
    assert policies.put("/", "a", "", {"max-length": 1})
    assert policies.put("/", "b", "", {"max-length": 2}, operator=True)
    b = Policy("/", "b", "^q", "queues", 3, {"message-ttl": 5})
    assert undated(policies.find("/", "b")) == b
    assert policies.list() == policies.list("/")
    assert [undated(policy) for policy in policies.list()] == [Policy("/", "a", "", "all", 0, {"max-length": 1}), b]
    assert [policy.definition for policy in policies.list("/", operator=True)] == [{"max-length": 2}]
    assert policies.delete("/", "b")
    assert not policies.delete("/", "b")
    assert policies.find("/", "b") is None
    assert policies.find("/", "b", operator=True) is not None


def test_a_policy_is_replaced_and_that_is_told(policies: Policies) -> None:
    assert policies.put("/", "p", "", {"max-length": 1})
    assert not policies.put("/", "p", "", {"max-length": 2})
    assert [policy.definition for policy in policies.list()] == [{"max-length": 2}]


def test_what_cannot_be_taken_changes_nothing(policies: Policies) -> None:
    policies.put("/", "p", "", {"max-length": 1})
    with pytest.raises(InvalidPolicy) as refused:
        policies.put("/", "p", "", {"max-length": -1})
    assert refused.value.key == "max-length"
    with pytest.raises(InvalidPolicy, match="no virtual host 'nowhere'"):
        policies.put("nowhere", "p", "", {"max-length": 1})
    assert [policy.definition for policy in policies.list()] == [{"max-length": 1}]
    assert policies.list("nowhere") == []
    assert not policies.delete("nowhere", "p")
    assert policies.find("nowhere", "p") is None


def test_a_definition_that_its_giver_changes_later_is_kept_as_it_was(policies: Policies) -> None:
    definition = {"max-length": 1}
    policies.put("/", "p", "", definition)
    definition["max-length"] = 2
    assert [policy.definition for policy in policies.list()] == [{"max-length": 1}]


def test_live_queues_are_told_what_they_live_by(
    town: Town, policies: Policies, governed: dict[bytes, dict[str, Any]]
) -> None:
    town.broker.apply(commands.DeclareQueue(queue("orders", **{"x-max-length": 9})))
    town.broker.apply(commands.DeclareQueue(queue("other")))
    policies.put("/", "p", "^orders", {"max-length": 5, "message-ttl": 7})
    assert governed == {b"orders": {"x-max-length": 5, "x-message-ttl": 7}, b"other": {}}
    policies.put("/", "o", "", {"max-length": 2}, operator=True)
    assert governed == {b"orders": {"x-max-length": 2, "x-message-ttl": 7}, b"other": {"x-max-length": 2}}
    policies.delete("/", "p")
    policies.delete("/", "o", operator=True)
    assert governed == {b"orders": {"x-max-length": 9}, b"other": {}}


def test_setting_a_policy_as_it_is_disturbs_no_queue(
    town: Town, policies: Policies, governed: dict[bytes, dict[str, Any]]
) -> None:
    policies.put("/", "p", "", {"max-length": 5})
    town.broker.apply(commands.DeclareQueue(queue("q")))
    assert governed == {b"q": {"x-max-length": 5}}, "a new queue lives by it at once"
    governed.clear()
    policies.put("/", "p", "", {"max-length": 5})
    assert governed == {}


def test_exchanges_get_and_lose_their_alternate(town: Town, policies: Policies) -> None:
    live = town.broker.vhosts["/"].exchanges
    town.broker.apply(commands.DeclareExchange(exchange("before")))
    town.broker.apply(commands.DeclareExchange(exchange("own", **{"alternate-exchange": "mine"})))
    policies.put("/", "p", "", {"alternate-exchange": "lost"}, apply_to="exchanges")
    town.broker.apply(commands.DeclareExchange(exchange("after")))
    alternates = {name: live[name].alternate for name in (b"before", b"after", b"own", b"amq.topic", b"")}
    assert alternates == {b"before": b"lost", b"after": b"lost", b"own": b"mine", b"amq.topic": b"lost", b"": None}
    policies.delete("/", "p")
    assert [live[name].alternate for name in (b"before", b"after", b"own")] == [None, None, b"mine"]


def test_routes_that_are_remembered_do_not_outlive_an_alternate(town: Town, policies: Policies) -> None:
    broker, live = town.broker, town.broker.vhosts["/"]
    for name in ("x", "lost"):
        broker.apply(commands.DeclareExchange(exchange(name)))
    generation = live.router.generation
    policies.put("/", "p", "^x$", {"alternate-exchange": "lost"})
    assert live.router.generation > generation


def test_which_policies_apply_is_told(town: Town, policies: Policies) -> None:
    policies.put("/", "p", "^q", {"message-ttl": 9, "max-length": 5})
    policies.put("/", "o", "", {"max-length": 2}, operator=True)
    applied = policies.of_queue(queue("q"))
    assert (applied.name, applied.operator_name) == ("p", "o")
    assert applied.definition == {"message-ttl": 9, "max-length": 2}
    assert policies.of_queue(queue("other")).name is None
    assert policies.of_exchange(exchange("qx")).name == "p"


def test_policies_belong_to_their_virtual_host(town: Town, policies: Policies) -> None:
    town.broker.apply(commands.PutVhost(Vhost("v")))
    policies.put("v", "p", "", {"max-length": 1})
    assert policies.of_queue(queue("q")).name is None
    assert policies.of_queue(queue("q", vhost="v")).name == "p"
    assert policies.list("/") == []
    town.broker.apply(commands.DeleteVhost("v"))
    assert policies.list() == []
    town.broker.apply(commands.PutVhost(Vhost("v")))
    assert policies.of_queue(queue("q", vhost="v")).name is None
    policies.put("v", "p", "", {"alternate-exchange": "lost"})
    assert town.broker.vhosts["v"].exchanges[b"amq.topic"].alternate == b"lost"


def test_policies_survive_a_restart(tmp_path: Path) -> None:
    definition = {"message-ttl": 7776000000, "retry-delays": ["1s", 500], "overflow": "drop-head"}
    for start in range(3):
        store = Store(tmp_path, StoreSettings(), lambda: 1)
        broker = Broker(LoadedDice(), Clock(), store)
        recover(broker)
        policies = Policies(broker)
        if start == 0:
            policies.put("/", "p", "^q", definition, 4, "queues")
            policies.put("/", "p", "", {"max-length": 5}, operator=True)
            policies.put("/", "gone", "", {"max-length": 5})
            policies.delete("/", "gone")
            broker.apply(commands.DeclareQueue(QueueRecord("/", "q", "classic", True, False, 0, {}, 1)))
            broker.apply(commands.DeclareExchange(ExchangeRecord("/", "x", "direct", True, False, False, {})))
        assert [undated(policy) for policy in policies.list()] == [Policy("/", "p", "^q", "queues", 4, definition)]
        (operators,) = policies.list(operator=True)
        assert undated(operators) == Policy("/", "p", "", "all", 0, {"max-length": 5}, True)
        assert policies.of_queue(broker.catalog.topologies["/"].queues["q"]).name == "p"
        # What a commit would do to the catalog's log.
        store.catalog.rewrite(store.snapshot())
        broker.close()
        store.abandon()
