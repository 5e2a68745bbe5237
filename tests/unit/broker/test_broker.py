"""The broker: what exists and its live mirror, who is connected, alarms, and what an empty broker starts with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.broker.broker import Broker
from leveret.catalog import commands
from leveret.catalog.records import User, Vhost
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from tests.unit.broker.people import Line, LoadedDice, Town
from tests.unit.catalog.naming import exchange, permission, queue, to_exchange, to_queue


@pytest.fixture
def town() -> Iterator[Town]:
    made = Town()
    yield made
    made.close()


@pytest.fixture
def line(town: Town) -> Line:
    line = Line()
    town.broker.connected(town.broker.new_connection_id(), line)
    return line


def test_an_empty_broker_starts_with_guest_who_may_do_everything() -> None:
    broker = Broker(Dice(), Clock())
    broker.create_defaults()
    assert list(broker.vhosts) == ["/"]
    assert broker.catalog.users["guest"].tags == ("administrator",)
    assert broker.logins.recognise("guest", b"guest", "127.0.0.1")
    assert not broker.logins.recognise("guest", b"Guest", "127.0.0.1")
    right = broker.catalog.permissions["guest", "/"]
    assert (right.configure, right.write, right.read) == (".*", ".*", ".*")
    broker.close()


def test_connection_ids_are_never_used_again(town: Town) -> None:
    first = town.broker.new_connection_id()
    town.broker.connected(first, Line())
    town.broker.disconnected(first)
    assert town.broker.new_connection_id() > first > 0


def test_connections_are_counted_once_however_often_they_leave(town: Town) -> None:
    town.broker.connected(7, Line())
    for _ in range(2):
        town.broker.disconnected(7)
    assert (town.broker.connections_opened_total, town.broker.connections_closed_total) == (1, 1)
    assert town.broker.connections == {}


def test_closing_all_connections_tells_each_of_them(town: Town, line: Line) -> None:
    other = Line()
    town.broker.connected(99, other)
    town.broker.close_connections("maintenance")
    assert line.told == other.told == [("close", 320, "maintenance")]


def test_a_connection_may_leave_while_all_are_told(town: Town) -> None:
    class Leaving(Line):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def close_by_broker(self, code: int, text: str) -> None:
            super().close_by_broker(code, text)
            town.broker.disconnected(self.number)

    lines = [Leaving(number) for number in (11, 12, 13)]
    for leaving in lines:
        town.broker.connected(leaving.number, leaving)
    town.broker.close_connections("bye")
    assert [len(leaving.told) for leaving in lines] == [1, 1, 1]


def test_a_changed_permission_is_told(town: Town, line: Line) -> None:
    town.broker.apply(commands.PutPermission(permission("ann")))
    town.broker.apply(commands.DeletePermission("ann", "/"))
    assert line.told == [("permissions", "ann"), ("permissions", "ann")]


def test_a_changed_user_is_told_because_tags_are_rights_too(town: Town, line: Line) -> None:
    town.broker.apply(commands.PutUser(User("ann", "", ("impersonator",))))
    assert line.told == [("permissions", "ann")]


def test_a_deleted_user_or_vhost_is_told_after_all_of_it_is_gone(town: Town, line: Line) -> None:
    town.broker.apply(commands.DeleteUser("ann"))
    assert line.told == [("permissions", "ann"), ("user deleted", "ann")]
    line.told.clear()
    town.broker.apply(commands.DeleteVhost("/"))
    assert line.told == [("permissions", "bob"), ("vhost deleted", "/")]


# ---- alarms


def test_an_alarm_is_told_once_and_its_end_once(town: Town, line: Line) -> None:
    town.broker.raise_alarm("memory", "low on memory")
    town.broker.raise_alarm("memory", "low on memory")
    assert town.broker.blocked_reason == "low on memory"
    town.broker.clear_alarm("memory")
    town.broker.clear_alarm("memory")
    assert town.broker.blocked_reason is None
    assert line.told == [("blocked", "low on memory"), ("blocked", None)]


def test_publishers_stay_blocked_until_the_last_alarm_is_over(town: Town, line: Line) -> None:
    town.broker.raise_alarm("memory", "low on memory")
    town.broker.raise_alarm("disk", "low on disk")
    town.broker.clear_alarm("memory")
    assert town.broker.blocked_reason == "low on disk"
    assert {reason for _, reason in line.told} == {"low on memory", "low on disk"}
    town.broker.clear_alarm("disk")
    assert line.told[-1] == ("blocked", None)


def test_clearing_an_alarm_that_was_not_raised_tells_nobody(town: Town, line: Line) -> None:
    town.broker.clear_alarm("memory")
    assert line.told == []


# ---- the live mirror


def test_the_mirror_follows_every_change_of_the_catalog(town: Town) -> None:
    live = town.broker.vhosts["/"]
    for command in (
        commands.DeclareExchange(exchange("a", auto_delete=True)),
        commands.DeclareExchange(exchange("b", auto_delete=True)),
        commands.DeclareQueue(queue("q")),
        commands.Bind(to_exchange("a", "b")),
        commands.Bind(to_queue("b", "q")),
    ):
        town.broker.apply(command)
    assert {b"a", b"b"} <= set(live.exchanges)
    assert live.router.resolve(live.exchanges[b"a"], [b""], None) == (live.queues[b"q"],)
    town.broker.apply(commands.DeleteQueue("/", "q"))
    assert set(live.exchanges) == {name.encode() for name in town.broker.catalog.topologies["/"].exchanges}
    assert b"a" not in live.exchanges
    assert live.queues == {}


def test_every_change_makes_routes_forgotten(town: Town) -> None:
    live = town.broker.vhosts["/"]
    for command in (
        commands.DeclareExchange(exchange("x")),
        commands.DeclareQueue(queue("q")),
        commands.Bind(to_queue("x", "q")),
        commands.Unbind(to_queue("x", "q")),
        commands.DeleteQueue("/", "q"),
        commands.DeleteExchange("/", "x"),
    ):
        before = live.router.generation
        town.broker.apply(command)
        assert live.router.generation > before


def test_a_vhost_comes_to_life_with_its_exchanges_and_goes_with_everything(town: Town) -> None:
    town.broker.apply(commands.PutVhost(Vhost("v")))
    assert b"amq.topic" in town.broker.vhosts["v"].exchanges
    town.broker.apply(commands.DeclareQueue(queue("q", vhost="v")))
    live_queue = town.broker.vhosts["v"].queues[b"q"]
    town.broker.apply(commands.DeleteVhost("v"))
    assert "v" not in town.broker.vhosts
    assert live_queue.deleted


def test_describing_a_vhost_anew_keeps_it_alive(town: Town) -> None:
    town.broker.apply(commands.DeclareQueue(queue("q")))
    live = town.broker.vhosts["/"]
    town.broker.apply(commands.PutVhost(Vhost("/", "new words")))
    assert town.broker.vhosts["/"] is live
    assert b"q" in live.queues


def test_brokers_share_nothing() -> None:
    one, two = Broker(LoadedDice(), Clock()), Broker(LoadedDice(), Clock())
    one.create_defaults()
    two.create_defaults()
    one.apply(commands.DeclareQueue(queue("q")))
    one.raise_alarm("disk", "low")
    assert two.vhosts["/"].queues == {}
    assert two.blocked_reason is None
    one.close()
    two.close()
