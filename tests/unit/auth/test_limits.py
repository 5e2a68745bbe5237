"""Limits: exactly as many as there are places, in RabbitMQ's words, and none left behind."""

from __future__ import annotations

import pytest

from leveret.auth.identity import CatalogUser
from leveret.auth.limits import Limits
from leveret.auth.node_limits import NodeLimits
from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.records import QueueRecord, User, Vhost
from leveret.errors import HardError, SoftError


class Fixture:
    def __init__(self) -> None:
        self.catalog = Catalog()
        self.limits = Limits(self.catalog)
        self.ann = CatalogUser(self.catalog, "ann")
        self.bob = CatalogUser(self.catalog, "bob")
        self.of_vhost()
        self.of_user()

    def of_vhost(self, **limits: int) -> None:
        self.catalog.apply(commands.PutVhost(Vhost("/", limits=_named(limits))))

    def of_user(self, **limits: int) -> None:
        self.catalog.apply(commands.PutUser(User("ann", "", limits=_named(limits))))


def _named(limits: dict[str, int]) -> dict[str, int]:
    return {name.replace("_", "-"): value for name, value in limits.items()}


@pytest.fixture
def fixture() -> Fixture:
    return Fixture()


def test_a_virtual_host_takes_as_many_connections_as_it_may(fixture: Fixture) -> None:
    fixture.of_vhost(max_connections=2)
    fixture.limits.take_place(1, fixture.ann, "/")
    fixture.limits.take_place(2, fixture.bob, "/")
    with pytest.raises(HardError) as refusal:
        fixture.limits.take_place(3, fixture.ann, "/")
    assert refusal.value.code == 530
    assert refusal.value.text == "access to vhost '/' refused for user 'ann': connection limit (2) is reached"
    fixture.limits.leave_place(1)
    fixture.limits.take_place(3, fixture.ann, "/")
    assert fixture.limits.connections_of_vhost("/") == 2


def test_a_user_has_as_many_connections_as_allowed_and_others_are_not_concerned(fixture: Fixture) -> None:
    fixture.of_user(max_connections=1)
    fixture.limits.take_place(1, fixture.ann, "/")
    with pytest.raises(HardError, match=r"connection refused for user 'ann': user connection limit \(1\) is reached"):
        fixture.limits.take_place(2, fixture.ann, "/")
    fixture.limits.take_place(3, fixture.bob, "/")
    assert fixture.limits.connections_of_user("ann") == 1


def test_a_node_takes_as_many_connections_as_it_may(fixture: Fixture) -> None:
    fixture.limits.node = NodeLimits(connections_max=1)
    fixture.limits.take_place(1, fixture.ann, "/")
    with pytest.raises(HardError, match=r"node connection limit \(1\) is reached"):
        fixture.limits.take_place(2, fixture.bob, "/")


def test_who_was_refused_has_taken_no_place(fixture: Fixture) -> None:
    fixture.of_vhost(max_connections=0)
    for number in range(5):
        with pytest.raises(HardError):
            fixture.limits.take_place(number, fixture.ann, "/")
        fixture.limits.leave_place(number)
    assert fixture.limits.connections_of_vhost("/") == fixture.limits.connections_of_user("ann") == 0


@pytest.mark.parametrize("value", [-1, -5])
def test_a_negative_limit_is_none(fixture: Fixture, value: int) -> None:
    fixture.of_vhost(max_connections=value, max_queues=value)
    fixture.of_user(max_connections=value, max_channels=value)
    for number in range(5):
        fixture.limits.take_place(number, fixture.ann, "/")
        fixture.limits.take_channel(fixture.ann)
        fixture.limits.topology.check_queues("/", "q", {}, number)


def test_channels_of_a_user_and_of_the_node(fixture: Fixture) -> None:
    fixture.of_user(max_channels=2)
    fixture.limits.node = NodeLimits(channels_max=3)
    for who in (fixture.ann, fixture.ann, fixture.bob):
        fixture.limits.take_channel(who)
    with pytest.raises(HardError) as refusal:
        fixture.limits.take_channel(fixture.ann)
    assert refusal.value.text == (
        "number of channels opened for user 'ann' has reached the maximum allowed user limit of (2)"
    )
    with pytest.raises(HardError, match=r"on the node has reached its limit of \(3\)"):
        fixture.limits.take_channel(fixture.bob)
    fixture.limits.leave_channel("ann")
    fixture.limits.take_channel(fixture.bob)
    assert fixture.limits.channels == 3


def test_queues_of_a_virtual_host(fixture: Fixture) -> None:
    fixture.of_vhost(max_queues=3)
    fixture.limits.topology.check_queues("/", "q", {}, 3)
    fixture.catalog.apply(commands.DeclareQueue(QueueRecord("/", "a", "classic", True, False, 0, {})))
    fixture.limits.topology.check_queues("/", "q", {}, 2)
    for more in (3, 4):
        with pytest.raises(SoftError) as refusal:
            fixture.limits.topology.check_queues("/", "q", {}, more)
        assert refusal.value.code == 406
        assert refusal.value.text == "cannot declare queue 'q': queue limit in vhost '/' (3) is reached"


def test_names_that_are_counted_no_more_leave_nothing_behind(fixture: Fixture) -> None:
    for number in range(100):
        who = CatalogUser(fixture.catalog, f"user{number}")
        fixture.limits.take_place(number, who, "/")
        fixture.limits.take_channel(who)
        fixture.limits.leave_channel(who.name)
        fixture.limits.leave_place(number)
    assert not fixture.limits._of_user and not fixture.limits._of_vhost and not fixture.limits._channels_of_user
