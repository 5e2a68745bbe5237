"""What of a catalog survives, and that a snapshot makes just that again."""

import pytest

from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.commands import Command
from leveret.catalog.records import (
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    Policy,
    QueueRecord,
    Suspension,
    TopicPermission,
    User,
    Vhost,
)
from leveret.catalog.snapshot import is_durable, snapshot, survives
from tests.unit.catalog.naming import job


def queue(name: str, durable: bool = True, owner: int = 0, id: int = 0) -> QueueRecord:
    return QueueRecord("/", name, "classic", durable, False, owner, {}, id)


def exchange(name: str, durable: bool = True) -> ExchangeRecord:
    return ExchangeRecord("/", name, "topic", durable, False, False, {})


def binding(source: str, destination: str, to_queue: bool = True) -> BindingRecord:
    return BindingRecord("/", source, to_queue, destination, "key", {})


def made_by(*given: Command) -> Catalog:
    catalog = Catalog()
    for command in (commands.PutVhost(Vhost("/")), *given):
        catalog.apply(command)
    return catalog


DURABLE = [
    commands.PutUser(User("ann", "hash")),
    commands.SuspendUser(Suspension("ann", "lost", 5)),
    commands.PutPermission(Permission("ann", "/", "a", "b", "c")),
    commands.PutPolicy(Policy("/", "p", "^q", "queues", 5, {"max-length": 10, "retry-delays": ["1s", 2000]})),
    commands.PutPolicy(Policy("/", "p", "", "all", -1, {"message-ttl": 7}, operator=True)),
    commands.DeclareExchange(exchange("x")),
    commands.DeclareExchange(exchange("y")),
    commands.DeclareQueue(queue("q", id=7)),
    commands.Bind(binding("x", "q")),
    commands.Bind(binding("x", "y", to_queue=False)),
    commands.PutJob(job("q", moved=5)),
    commands.PutTopicPermission(TopicPermission("ann", "/", "x", "a", "b")),
    commands.PutParameter(Parameter("/", "shovel", "s", {"a": [1]})),
    commands.PutGlobalParameter(GlobalParameter("g", "value")),
]
TRANSIENT = [
    commands.DeclareExchange(exchange("passing", durable=False)),
    commands.DeclareQueue(queue("passing", durable=False)),
    commands.DeclareQueue(queue("exclusive", owner=3)),
    commands.Bind(binding("passing", "q")),
    commands.Bind(binding("x", "passing")),
    commands.Bind(binding("x", "exclusive")),
    commands.PutJob(job("passing")),
]


def test_a_snapshot_makes_what_survives_and_nothing_else() -> None:
    made = snapshot(made_by(*DURABLE, *TRANSIENT))
    again = Catalog()
    for command in made:
        again.apply(command)
    assert snapshot(again) == made
    expected = made_by(*DURABLE)
    assert (again.users, again.permissions) == (expected.users, expected.permissions)
    assert again.suspensions == expected.suspensions and again.suspensions
    assert list(again.topic_permissions) == list(expected.topic_permissions) == [("ann", "/", "x")]
    assert again.parameters == expected.parameters and again.parameters
    assert again.global_parameters == expected.global_parameters and again.global_parameters
    assert again.policies["/"].all() == expected.policies["/"].all()
    assert again.topologies["/"].queues == expected.topologies["/"].queues
    assert again.topologies["/"].exchanges == expected.topologies["/"].exchanges
    assert again.topologies["/"].bindings_from == expected.topologies["/"].bindings_from
    assert again.jobs == expected.jobs == {("/", "q"): job("q", moved=5)}


def test_policies_are_there_before_the_queues_they_apply_to() -> None:
    kinds = [type(command) for command in snapshot(made_by(*DURABLE))]
    assert kinds.index(commands.PutPolicy) < kinds.index(commands.DeclareQueue)
    assert kinds.index(commands.PutPolicy) < kinds.index(commands.DeclareExchange)


def test_ids_of_deleted_queues_are_not_given_again() -> None:
    catalog = made_by(*DURABLE, commands.DeleteQueue("/", "q"))
    again = Catalog()
    for command in snapshot(catalog):
        again.apply(command)
    assert again.next_queue_id == catalog.next_queue_id == 8


@pytest.mark.parametrize("command", DURABLE, ids=lambda command: type(command).__name__)
def test_what_changes_something_durable_is_logged(command: Command) -> None:
    catalog = made_by(*DURABLE[: DURABLE.index(command)])
    assert any(is_durable(catalog, change) for change in catalog.apply(command))


@pytest.mark.parametrize("command", TRANSIENT, ids=lambda command: type(command).__name__)
def test_what_changes_nothing_durable_is_not(command: Command) -> None:
    catalog = made_by(*DURABLE, *TRANSIENT[: TRANSIENT.index(command)])
    assert not any(is_durable(catalog, change) for change in catalog.apply(command))


def test_deleting_something_durable_is_logged() -> None:
    for command in (
        commands.DeleteQueue("/", "q"),
        commands.DeleteExchange("/", "x"),
        commands.DeletePolicy("/", "p"),
        commands.DeleteJob("/", "q"),
        commands.DeleteVhost("/"),
    ):
        catalog = made_by(*DURABLE)
        assert any(is_durable(catalog, change) for change in catalog.apply(command))


def test_an_exclusive_queue_does_not_survive() -> None:
    assert survives(queue("q"))
    assert not survives(queue("q", durable=False))
    assert not survives(queue("q", owner=1))
