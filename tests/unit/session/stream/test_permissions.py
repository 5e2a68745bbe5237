"""Every command of the stream protocol against every set of rights, and what becomes of a client whose rights go."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from leveret.catalog import commands as changes
from leveret.catalog.passwords import hash_known_password
from leveret.catalog.records import Permission, User
from leveret.session.stream.session import HANDLERS
from leveret.testing import Broker
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import Code
from leveret.wire.stream_commands import Command
from tests.unit.session.stream.scene import FIRST, connected, eventually, permit

KINDS = ("configure", "write", "read")
RIGHTS = [frozenset(chosen) for count in range(4) for chosen in itertools.combinations(KINDS, count)]
_HASH = hash_known_password(b"secret", bytes(16))


class Case(NamedTuple):
    """`code` is what comes if the rights are there."""

    command: type[Command]
    fields: tuple[Any, ...]
    needs: str
    code: int = Code.OK


CASES = [
    Case(commands.Create, ("new", {}), "configure"),
    Case(commands.Delete, ("old",), "configure"),
    Case(commands.DeclarePublisher, (1, "", "old"), "write"),
    Case(commands.QueryPublisherSequence, ("p", "old"), "read"),
    Case(commands.Subscribe, (1, "old", FIRST, 10, {}), "read"),
    Case(commands.QueryOffset, ("c", "old"), "read", Code.NO_OFFSET),
    Case(commands.ResolveOffsetSpec, ("old", FIRST, {}), "read"),
    Case(commands.StreamStats, ("old",), "read"),
    Case(commands.CreateSuperStream, ("super", ["super-0"], ["0"], {}), "configure write read"),
    Case(commands.DeleteSuperStream, ("grand",), "configure write read"),
]
# Those without an answer, and those that tell what anybody may know.
BESIDE = {
    # Asked for when the publisher or the subscription was made.
    commands.DeletePublisher,
    commands.Unsubscribe,
    commands.Credit,
    # Below.
    commands.StoreOffset,
    # As in RabbitMQ: where streams are, and how super streams are divided.
    commands.Metadata,
    commands.Route,
    commands.Partitions,
    commands.ExchangeCommandVersions,
}


def called(rights: frozenset[str]) -> str:
    return "-".join(sorted(rights)) or "nothing"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for rights in RIGHTS:
            patterns = [".*" if kind in rights else "" for kind in KINDS]
            for change in (
                changes.PutUser(User(called(rights), _HASH)),
                changes.PutPermission(Permission(called(rights), "/", *patterns)),
            ):
                broker.call(lambda node, change=change: node.broker.apply(change))
        yield broker


def test_every_command_has_a_row_or_needs_none() -> None:
    rows = {case.command for case in CASES}
    assert set(HANDLERS) - rows - BESIDE == set()
    assert rows | BESIDE == set(HANDLERS)


@pytest.mark.parametrize("rights", RIGHTS, ids=called)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.command.__name__)
def test_a_command_passes_with_its_rights_only(broker: Broker, case: Case, rights: frozenset[str]) -> None:
    with connected(broker) as operator:
        operator.do(commands.Create, "old", {})
        operator.do(commands.CreateSuperStream, "grand", ["grand-0"], ["0"], {})
        try:
            with connected(broker, user=called(rights), password="secret") as client:
                allowed = set(case.needs.split()) <= rights
                assert client.code(case.command, *case.fields) == (case.code if allowed else Code.ACCESS_REFUSED)
        finally:
            for name in ("old", "new"):
                operator.code(commands.Delete, name)
            for name in ("grand", "super"):
                operator.code(commands.DeleteSuperStream, name)


@pytest.mark.parametrize("rights", [frozenset(("read",)), frozenset(("write", "configure"))], ids=called)
def test_an_offset_is_stored_by_those_who_may_read(broker: Broker, rights: frozenset[str]) -> None:
    with connected(broker) as operator:
        operator.do(commands.Create, "old", {})
        with connected(broker, user=called(rights), password="secret") as client:
            client.send(commands.StoreOffset("c", "old", 7))
            client.do(commands.Partitions, "amq.direct")
        stored = operator.request(commands.QueryOffset, "c", "old")
        assert (stored.code, stored.offset) == ((Code.OK, 7) if "read" in rights else (Code.NO_OFFSET, 0))
        operator.do(commands.Delete, "old")


# ---- while it lives


@pytest.fixture
def ann(broker: Broker) -> Iterator[Any]:
    broker.call(lambda node: node.broker.apply(changes.PutUser(User("ann", _HASH))))
    permit(broker, "ann")
    with connected(broker) as operator:
        operator.do(commands.Create, "old", {})
        with connected(broker, user="ann", password="secret") as client:
            yield client
        operator.code(commands.Delete, "old")


def test_a_subscription_ends_when_its_stream_may_no_longer_be_read(broker: Broker, ann: Any) -> None:
    ann.do(commands.Subscribe, 1, "old", FIRST, 10, {})
    permit(broker, "ann", read="other")
    assert ann.receive(commands.MetadataUpdate) == commands.MetadataUpdate(Code.STREAM_NOT_AVAILABLE, "old")
    assert ann.code(commands.Unsubscribe, 1) == Code.SUBSCRIPTION_ID_DOES_NOT_EXIST
    assert ann.code(commands.Subscribe, 1, "old", FIRST, 10, {}) == Code.ACCESS_REFUSED
    permit(broker, "ann")
    ann.do(commands.Subscribe, 1, "old", FIRST, 10, {})


def test_a_subscription_that_may_still_be_read_goes_on(broker: Broker, ann: Any) -> None:
    ann.do(commands.Subscribe, 1, "old", FIRST, 10, {})
    permit(broker, "ann", configure="", write="")
    assert ann.is_silent()
    ann.do(commands.Unsubscribe, 1)


def test_without_a_permission_for_the_virtual_host_the_connection_ends(broker: Broker, ann: Any) -> None:
    broker.call(lambda node: node.broker.apply(changes.DeletePermission("ann", "/")))
    assert ann.is_closed()
    eventually(lambda: broker.call(lambda node: all(each.user != "ann" for each in node.broker.connections.values())))
