"""Commands as data: they survive being written and read back, so that a log or Raft can carry them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.commands import Command
from leveret.catalog.records import GlobalParameter, Parameter, ReplayFilter, Suspension, TopicPermission, User, Vhost
from leveret.catalog.topology import binding_key
from leveret.core.codec.field_types import Float32, Int8, Int16, Int64, Timestamp, UInt8, UInt16, UInt32
from leveret.core.codec.tables import encode_table
from tests.unit.catalog.naming import (
    exchange,
    job,
    permission,
    policy,
    queue,
    stream,
    super_exchange,
    to_exchange,
    to_queue,
)

# What JSON can say and a policy may hold.
EVERY_DEFINITION_VALUE: dict[str, Any] = {
    "number": 5,
    "large": 2**63 - 1,
    "text": "\u00fc",
    "list": ["1s", 500],
    "true": True,
}

EVERY_COMMAND: list[Command] = [
    commands.PutVhost(Vhost("v", "a description")),
    commands.DeleteVhost("v"),
    commands.PutUser(User("ann", "$argon2id$...", ("administrator", "impersonator"))),
    commands.DeleteUser("ann"),
    commands.SuspendUser(Suspension("ann", "commands of the catalog are lost", 1_790_000_000)),
    commands.ReleaseUser("ann"),
    commands.PutPermission(permission("ann", "v", "^a")),
    commands.DeletePermission("ann", "v"),
    commands.PutTopicPermission(TopicPermission("ann", "v", "x", "^a", "")),
    commands.DeleteTopicPermission("ann", "v", "x"),
    commands.PutParameter(Parameter("v", "shovel", "s", EVERY_DEFINITION_VALUE)),
    commands.DeleteParameter("v", "shovel", "s"),
    commands.PutGlobalParameter(GlobalParameter("g", EVERY_DEFINITION_VALUE)),
    commands.DeleteGlobalParameter("g"),
    commands.Together((commands.PutVhost(Vhost("v")), commands.DeclareQueue(queue("q")))),
    commands.DeclareExchange(exchange("x", True)),
    commands.DeleteExchange("/", "x"),
    commands.DeclareQueue(queue("q", owner=7)),
    commands.SkipQueueIds(12),
    commands.DeleteQueue("/", "q"),
    commands.Bind(to_queue("x", "q", "key")),
    commands.Unbind(to_exchange("x", "y", "key")),
    commands.DeclareSuperStream(super_exchange("s"), stream("s-0", 5), (("s-0", "0"), ("s-emea", "emea"))),
    commands.DeleteSuperStream("/", "s", ("s-0", "s-emea")),
    commands.PutPolicy(policy("p", EVERY_DEFINITION_VALUE, "^q", -3, "queues", operator=True)),
    commands.DeletePolicy("/", "p", operator=True),
    commands.PutJob(
        job("q", filter=ReplayFilter(reason="expired", headers=EVERY_DEFINITION_VALUE, body_contains=b"\xff"), moved=7)
    ),
    commands.DeleteJob("/", "q"),
]

# One of each field type that a client can send.
EVERY_VALUE: list[Any] = [
    True,
    5,
    2**40,
    Int8(-1),
    UInt8(1),
    Int16(-1),
    UInt16(1),
    UInt32(1),
    Int64(1),
    Timestamp(1_700_000_000),
    1.5,
    Float32(0.5),
    Decimal("1.25"),
    "text",
    "not UTF-8: \udcff",
    b"octets",
    None,
    [1, "a", [Int8(1)]],
    {"nested": {"deep": Int64(1)}},
]


def there_and_back(command: Command) -> Command:
    return commands.decode_command(commands.encode_command(command))


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_a_command_survives_msgpack(command: Command) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(command), type=Command) == command


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_a_command_survives_being_written_and_read_back(command: Command) -> None:
    assert there_and_back(command) == command


def test_every_kind_of_command_is_tried() -> None:
    assert {type(command) for command in EVERY_COMMAND} == set(Command.__args__)


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_every_kind_of_command_can_be_applied(command: Command) -> None:
    catalog = Catalog()
    catalog.apply(commands.PutVhost(Vhost("/")))
    catalog.apply(command)


@pytest.mark.parametrize("value", EVERY_VALUE, ids=lambda value: f"{type(value).__name__}")
def test_arguments_of_every_field_type_survive(value: Any) -> None:
    """As octets they must be the same: a binding is found again by them, and they are sent on to clients."""
    command = commands.DeclareQueue(queue("q", argument=value))
    again = there_and_back(command)
    assert isinstance(again, commands.DeclareQueue)
    assert encode_table(again.queue.arguments) == encode_table(command.queue.arguments)


def test_arguments_of_commands_that_come_together_survive() -> None:
    command = commands.Together((commands.DeclareQueue(queue("q", argument=Int8(1))), commands.DeleteUser("ann")))
    again = there_and_back(command)
    assert isinstance(again, commands.Together)
    declared = again.commands[0]
    assert isinstance(declared, commands.DeclareQueue)
    assert type(declared.queue.arguments["argument"]) is Int8


@pytest.mark.parametrize("value", EVERY_VALUE, ids=lambda value: f"{type(value).__name__}")
def test_a_binding_that_was_written_is_found_by_the_one_that_was_not(value: Any) -> None:
    binding = to_queue("x", "q", argument=value)
    again = there_and_back(commands.Bind(binding))
    assert isinstance(again, commands.Bind)
    assert binding_key(again.binding) == binding_key(binding)


@pytest.mark.parametrize("value", EVERY_VALUE, ids=lambda value: f"{type(value).__name__}")
def test_arguments_of_both_records_of_a_super_stream_survive(value: Any) -> None:
    command = commands.DeclareSuperStream(
        exchange("s", argument=value), queue("s-0", argument=[value, value]), (("s-0", "0"),)
    )
    again = there_and_back(command)
    assert isinstance(again, commands.DeclareSuperStream)
    for ours, theirs in ((again.exchange, command.exchange), (again.stream, command.stream)):
        assert encode_table(ours.arguments) == encode_table(theirs.arguments)


def test_commands_and_records_never_change() -> None:
    command = commands.DeclareQueue(queue("q"))
    for thing, name in ((command, "queue"), (command.queue, "name")):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)
