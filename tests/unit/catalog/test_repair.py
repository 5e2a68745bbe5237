"""A catalog that has lost commands: what depends on them is made possible, or passed over."""

import pytest

from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.commands import Command
from leveret.catalog.records import BindingRecord, ExchangeRecord, Permission, Policy, QueueRecord, User, Vhost
from leveret.catalog.repair import is_possible, missing_vhost
from tests.unit.catalog.naming import job, stream, super_exchange

QUEUE = QueueRecord("v", "q", "classic", True, False, 0, {}, 1)
EXCHANGE = ExchangeRecord("v", "x", "topic", True, False, False, {})
BINDING = BindingRecord("v", "x", True, "q", "key", {})


@pytest.mark.parametrize(
    "command",
    [
        commands.DeclareExchange(EXCHANGE),
        commands.DeclareQueue(QUEUE),
        commands.Bind(BINDING),
        commands.Unbind(BINDING),
        commands.DeleteExchange("v", "x"),
        commands.DeleteQueue("v", "q"),
        commands.PutPolicy(Policy("v", "p", "", "all", 0, {"max-length": 1})),
        commands.DeletePolicy("v", "p"),
        commands.PutJob(job("q", vhost="v")),
        commands.DeleteJob("v", "q"),
        commands.DeclareSuperStream(super_exchange("s", "v"), stream("s-0", 1, "v"), (("s-0", "0"),)),
        commands.DeleteSuperStream("v", "s", ("s-0",)),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_lost_virtual_host_is_made_again(command: Command) -> None:
    catalog = Catalog()
    missing = missing_vhost(catalog, command)
    assert missing == commands.PutVhost(Vhost("v"))
    catalog.apply(missing)
    assert missing_vhost(catalog, command) is None


@pytest.mark.parametrize(
    "command",
    [
        commands.PutVhost(Vhost("v")),
        commands.PutUser(User("u", "")),
        commands.SkipQueueIds(3),
        commands.DeleteVhost("v"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_what_needs_no_virtual_host_asks_for_none(command: Command) -> None:
    assert missing_vhost(Catalog(), command) is None
    assert is_possible(Catalog(), command)


def test_a_binding_needs_both_of_its_ends() -> None:
    catalog = Catalog()
    catalog.apply(commands.PutVhost(Vhost("v")))
    assert not is_possible(catalog, commands.Bind(BINDING))
    catalog.apply(commands.DeclareExchange(EXCHANGE))
    assert not is_possible(catalog, commands.Bind(BINDING))
    catalog.apply(commands.DeclareQueue(QUEUE))
    assert is_possible(catalog, commands.Bind(BINDING))


def test_a_super_stream_needs_nothing_but_its_virtual_host() -> None:
    catalog = Catalog()
    catalog.apply(commands.PutVhost(Vhost("v")))
    command = commands.DeclareSuperStream(super_exchange("s", "v"), stream("s-0", 1, "v"), (("s-0", "0"),))
    assert is_possible(catalog, command)
    # Nor does the end of one that damage has taken away.
    assert is_possible(catalog, commands.DeleteSuperStream("v", "s", ("s-0",)))
    assert catalog.apply(commands.DeleteSuperStream("v", "s", ("s-0",))) == []


def test_a_job_needs_its_queue() -> None:
    catalog = Catalog()
    catalog.apply(commands.PutVhost(Vhost("v")))
    assert not is_possible(catalog, commands.PutJob(job("q", vhost="v")))
    catalog.apply(commands.DeclareQueue(QUEUE))
    assert is_possible(catalog, commands.PutJob(job("q", vhost="v")))


def test_permissions_may_be_given_to_whoever_was_lost() -> None:
    command = commands.PutPermission(Permission("gone", "v", "", "", ""))
    assert missing_vhost(Catalog(), command) is None
    assert is_possible(Catalog(), command)
