"""The catalog as a pure machine: vhosts, users and permissions, and that equal commands give equal catalogs."""

from __future__ import annotations

import random
from typing import Any

import pytest

from leveret.catalog import commands
from leveret.catalog.catalog import PREDECLARED_EXCHANGES, Catalog
from leveret.catalog.commands import Added, Command, Removed
from leveret.catalog.records import (
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    QueueRecord,
    TopicPermission,
    User,
    Vhost,
)
from tests.unit.catalog.naming import (
    catalog_of,
    exchange,
    job,
    permission,
    policy,
    queue,
    to_exchange,
    to_queue,
    told,
)


def state(catalog: Catalog) -> dict[str, Any]:
    """Everything a catalog holds, as plain values."""
    return {
        "vhosts": catalog.vhosts,
        "users": catalog.users,
        "permissions": catalog.permissions,
        "topologies": {
            name: (topology.exchanges, topology.queues, topology.bindings_from, topology.bindings_to)
            for name, topology in catalog.topologies.items()
        },
        "jobs": catalog.jobs,
        "policies": {name: book.all() for name, book in catalog.policies.items()},
    }


def test_a_new_vhost_is_born_with_rabbitmqs_exchanges() -> None:
    catalog = Catalog()
    changes = catalog.apply(commands.PutVhost(Vhost("new")))
    assert told(changes)[0] == "+vhost new"
    made = {change.record.name: change.record for change in changes[1:] if isinstance(change.record, ExchangeRecord)}
    assert {name: (record.kind, record.internal) for name, record in made.items()} == {
        "": ("direct", False),
        "amq.direct": ("direct", False),
        "amq.fanout": ("fanout", False),
        "amq.headers": ("headers", False),
        "amq.match": ("headers", False),
        "amq.rabbitmq.trace": ("topic", True),
        "amq.topic": ("topic", False),
    }
    assert all(record.durable and not record.auto_delete for record in made.values())


def test_putting_a_vhost_again_changes_its_record_and_keeps_what_it_holds() -> None:
    catalog = catalog_of(queue("q"))
    changes = catalog.apply(commands.PutVhost(Vhost("/", "described")))
    assert changes == [Added(Vhost("/", "described"))]
    assert "q" in catalog.topologies["/"].queues


def test_a_deleted_vhost_takes_everything_along_and_nothing_of_others() -> None:
    catalog = catalog_of(
        Vhost("other"),
        queue("q"),
        exchange("x"),
        exchange("auto", auto_delete=True),
        to_queue("x", "q"),
        to_exchange("auto", "x"),
        to_exchange("x", "x"),
        permission("ann"),
        permission("ann", "other"),
        queue("q", vhost="other"),
        policy("p"),
        policy("p", operator=True),
        policy("p", vhost="other"),
    )
    changes = told(catalog.apply(commands.DeleteVhost("/")))
    assert changes[-1] == "-vhost /"
    assert sorted(changes[:-1]) == sorted(
        ["-queue q", "-binding x>q", "-binding auto>x", "-binding x>x", "-exchange x", "-exchange auto"]
        + [f"-exchange {name}" for name, *_ in PREDECLARED_EXCHANGES]
        + ["-permission ann@/", "-policy p", "-operator policy p"]
    )
    assert set(catalog.vhosts) == set(catalog.topologies) == {"other"}
    assert set(catalog.permissions) == {("ann", "other")}
    assert set(catalog.topologies["other"].queues) == {"q"}
    assert {name: book.all() for name, book in catalog.policies.items()} == {"other": [policy("p", vhost="other")]}


def test_what_is_removed_with_a_vhost_is_removed_once_and_bindings_before_their_ends() -> None:
    catalog = catalog_of(queue("q"), exchange("a"), exchange("b"), to_exchange("a", "b"), to_queue("b", "q"))
    changes = told(catalog.apply(commands.DeleteVhost("/")))
    assert len(changes) == len(set(changes))
    assert changes.index("-binding b>q") < min(changes.index("-queue q"), changes.index("-exchange b"))
    assert changes.index("-binding a>b") < min(changes.index("-exchange a"), changes.index("-exchange b"))


@pytest.mark.parametrize(
    "command",
    [
        commands.DeleteVhost("missing"),
        commands.DeleteUser("missing"),
        commands.DeletePermission("missing", "/"),
        commands.DeleteTopicPermission("missing", "/", "x"),
        commands.DeleteParameter("/", "shovel", "missing"),
        commands.DeleteGlobalParameter("missing"),
        commands.DeleteQueue("/", "missing"),
        commands.DeleteExchange("/", "missing"),
        commands.Unbind(to_queue("missing", "missing")),
        commands.DeletePolicy("/", "missing"),
        commands.DeletePolicy("/", "missing", operator=True),
        commands.DeleteJob("/", "missing"),
    ],
)
def test_removing_what_is_not_there_changes_nothing(command: Command) -> None:
    catalog = catalog_of(queue("q"))
    before = repr(state(catalog))
    assert catalog.apply(command) == []
    assert repr(state(catalog)) == before


def test_a_user_is_replaced_whole() -> None:
    catalog = catalog_of(User("ann", "old", ("administrator",)))
    assert catalog.apply(commands.PutUser(User("ann", "new"))) == [Added(User("ann", "new"))]
    assert catalog.users == {"ann": User("ann", "new", ())}


def test_a_deleted_user_takes_the_permissions_along() -> None:
    catalog = catalog_of(User("ann", ""), Vhost("v"), permission("ann"), permission("ann", "v"), permission("bob"))
    changes = catalog.apply(commands.DeleteUser("ann"))
    assert told(changes) == ["-permission ann@/", "-permission ann@v", "-user ann"]
    assert set(catalog.permissions) == {("bob", "/")}


def test_topic_permissions_and_parameters_go_with_what_they_are_about() -> None:
    catalog = Catalog()
    of_ann = TopicPermission("ann", "/", "amq.topic", "a", "b")
    of_bob = TopicPermission("bob", "v", "amq.topic", "", "")
    here, there = Parameter("/", "shovel", "s", {"a": 1}), Parameter("v", "shovel", "s", 2)
    catalog.apply(
        commands.Together(
            (
                *(commands.PutVhost(Vhost(name)) for name in ("/", "v")),
                *(commands.PutUser(User(name, "")) for name in ("ann", "bob")),
                *(commands.PutTopicPermission(one) for one in (of_ann, of_bob)),
                *(commands.PutParameter(one) for one in (here, there)),
                commands.PutGlobalParameter(GlobalParameter("g", 1)),
            )
        )
    )
    assert list(catalog.topic_permissions.values()) == [of_ann, of_bob]
    assert list(catalog.parameters.values()) == [here, there]
    assert catalog.apply(commands.DeleteUser("ann")) == [Removed(of_ann), Removed(User("ann", ""))]
    changes = catalog.apply(commands.DeleteVhost("v"))
    assert Removed(of_bob) in changes and Removed(there) in changes and Removed(here) not in changes
    assert (catalog.topic_permissions, list(catalog.parameters.values())) == ({}, [here])
    assert catalog.apply(commands.DeleteParameter("/", "shovel", "s")) == [Removed(here)]
    assert catalog.apply(commands.DeleteGlobalParameter("g")) == [Removed(GlobalParameter("g", 1))]
    assert (catalog.parameters, catalog.global_parameters) == ({}, {})


def test_a_permission_is_replaced_and_removed() -> None:
    catalog = catalog_of(permission("ann"))
    narrow = Permission("ann", "/", "", "a", "b")
    assert catalog.apply(commands.PutPermission(narrow)) == [Added(narrow)]
    assert catalog.permissions == {("ann", "/"): narrow}
    assert catalog.apply(commands.DeletePermission("ann", "/")) == [Removed(narrow)]
    assert catalog.permissions == {}


def test_a_policy_is_replaced_whole_and_removed() -> None:
    catalog = catalog_of(policy("p"), policy("p", operator=True))
    other = policy("p", {"max-length": 5}, "^q", 7, "queues")
    assert catalog.apply(commands.PutPolicy(other)) == [Added(other)]
    assert catalog.policies["/"].find("p") == other
    assert catalog.policies["/"].find("p", operator=True) == policy("p", operator=True)
    assert catalog.apply(commands.DeletePolicy("/", "p")) == [Removed(other)]
    assert catalog.policies["/"].all() == [policy("p", operator=True)]


def test_a_queue_has_one_job_which_goes_with_it() -> None:
    catalog = catalog_of(Vhost("v"), queue("q"), queue("q", vhost="v"))
    first, later, other = job("q"), job("q", moved=3), job("q", vhost="v")
    for record in (first, later, other):
        assert catalog.apply(commands.PutJob(record)) == [Added(record)]
    assert catalog.jobs == {("/", "q"): later, ("v", "q"): other}
    assert catalog.apply(commands.DeleteQueue("/", "q")) == [Removed(queue("q")), Removed(later)]
    assert Removed(other) in catalog.apply(commands.DeleteVhost("v"))
    assert catalog.jobs == {}


def test_vhosts_keep_equal_names_apart() -> None:
    catalog = catalog_of(Vhost("v"), queue("q"), queue("q", vhost="v"), exchange("x"), to_queue("x", "q"))
    assert told(catalog.apply(commands.DeleteQueue("/", "q"))) == ["-binding x>q", "-queue q"]
    assert set(catalog.topologies["v"].queues) == {"q"}


def random_command(rolls: random.Random) -> Command:
    name = rolls.choice("abc")
    other = rolls.choice("abc")
    binding: BindingRecord = rolls.choice((to_queue, to_exchange))(name, other, rolls.choice(("", "k")))
    return rolls.choice(
        (
            commands.DeclareQueue(queue(name)),
            commands.DeleteQueue("/", name),
            commands.DeclareExchange(exchange(name, auto_delete=rolls.random() < 0.6)),
            commands.DeleteExchange("/", name),
            commands.Bind(binding),
            commands.Bind(binding),
            commands.Unbind(binding),
            commands.PutPermission(permission(name)),
            commands.DeleteUser(name),
            commands.PutPolicy(policy(name, pattern=other, operator=rolls.random() < 0.5)),
            commands.DeletePolicy("/", name, rolls.random() < 0.5),
            commands.PutJob(job(name, moved=rolls.randrange(9))),
            commands.DeleteJob("/", name),
        )
    )


def makes_sense(catalog: Catalog, command: Command) -> bool:
    """What whoever gives the command has checked: both ends of a binding exist, and nothing is declared twice."""
    topology = catalog.topologies["/"]
    match command:
        case commands.Bind(binding):
            ends = topology.queues if binding.to_queue else topology.exchanges
            return binding.source in topology.exchanges and binding.destination in ends
        case commands.DeclareQueue(record):
            return record.name not in topology.queues
        case commands.DeclareExchange(record):
            return record.name not in topology.exchanges
    return True


def test_equal_commands_give_equal_catalogs_and_equal_changes() -> None:
    for seed in range(20):
        rolls = random.Random(seed)
        one, two = catalog_of(), catalog_of()
        for _ in range(150):
            command = random_command(rolls)
            if makes_sense(one, command):
                assert one.apply(command) == two.apply(command)
        assert state(one) == state(two)


def test_whatever_happens_bindings_have_both_ends_and_stand_in_both_lists() -> None:
    for seed in range(30):
        rolls, catalog = random.Random(seed), catalog_of()
        topology = catalog.topologies["/"]
        mirror: set[str] = set()
        for _ in range(150):
            command = random_command(rolls)
            if not makes_sense(catalog, command):
                continue
            for change in catalog.apply(command):
                if isinstance(change.record, ExchangeRecord | QueueRecord | BindingRecord):
                    key = repr(change.record)
                    assert (key in mirror) == isinstance(change, Removed)
                    mirror ^= {key}
            listed = [binding for bindings in topology.bindings_from.values() for binding in bindings.values()]
            reverse = [binding for bindings in topology.bindings_to.values() for binding in bindings.values()]
            assert sorted(map(repr, listed)) == sorted(map(repr, reverse))
            assert all(topology.bindings_from.values()) and all(topology.bindings_to.values())
            for binding in listed:
                assert binding.source in topology.exchanges
                assert binding.destination in (topology.queues if binding.to_queue else topology.exchanges)
