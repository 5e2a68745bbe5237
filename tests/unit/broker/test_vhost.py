"""A virtual host alive: exclusive queues by their owner, consumers that lose their queue, reply addresses, and what
exchanges and queues keep besides."""

from __future__ import annotations

import pytest

from leveret.broker.vhost import LiveVhost
from leveret.catalog.commands import Added, Removed
from leveret.catalog.records import ExchangeRecord
from leveret.core.codec.message import shown
from leveret.core.codec.names import name_octets
from leveret.core.connection.reply import ReplyQueue
from leveret.core.queue.office import Office
from tests.unit.catalog.naming import exchange, queue, to_exchange, to_queue
from tests.unit.queues.dataplane import Workbench, message, new_consumer


def new_vhost() -> LiveVhost:
    vhost = LiveVhost("/", lambda count: 0)
    vhost.reflect(Added(ExchangeRecord("/", "", "direct", True, False, False, {})))
    return vhost


class Desk:
    """The control side of a channel: notes the consumers it lost."""

    def __init__(self) -> None:
        self.lost: list[bytes] = []

    def consumer_lost(self, tag: bytes) -> None:
        self.lost.append(tag)


def test_names_are_octets_and_any_octets_survive() -> None:
    assert name_octets("größe") == "größe".encode()
    assert name_octets(b"\xff".decode("utf-8", "surrogateescape")) == b"\xff"


def test_a_queue_is_reached_by_its_name_while_it_exists() -> None:
    vhost = new_vhost()
    vhost.reflect(Added(queue("q")))
    default = vhost.exchanges[b""]
    assert vhost.router.resolve(default, [b"q"], None) == (vhost.queues[b"q"],)
    vhost.reflect(Removed(queue("q")))
    assert vhost.router.resolve(default, [b"q"], None) == ()


def test_bindings_reach_queues_and_exchanges_and_can_be_undone() -> None:
    vhost = new_vhost()
    for record in (exchange("a"), exchange("b"), queue("q"), to_exchange("a", "b"), to_queue("b", "q")):
        vhost.reflect(Added(record))
    source = vhost.exchanges[b"a"]
    assert vhost.router.resolve(source, [b""], None) == (vhost.queues[b"q"],)
    vhost.reflect(Removed(to_exchange("a", "b")))
    assert vhost.router.resolve(source, [b""], None) == ()


def test_an_exchange_knows_its_alternate_and_its_record() -> None:
    vhost = new_vhost()
    record = exchange("x", **{"alternate-exchange": "spare"})
    vhost.reflect(Added(record))
    live = vhost.exchanges[b"x"]
    assert (live.alternate, live.record, live.internal) == (b"spare", record, False)


def test_exclusive_queues_are_listed_by_their_owner_until_they_go() -> None:
    vhost = new_vhost()
    vhost.reflect(Added(queue("a", owner=5)))
    vhost.reflect(Added(queue("b", owner=5)))
    vhost.reflect(Added(queue("shared")))
    assert vhost.owned == {5: {"a", "b"}}
    vhost.reflect(Removed(queue("a", owner=5)))
    vhost.reflect(Removed(queue("b", owner=5)))
    assert vhost.owned == {}


def test_consumers_are_told_when_their_queue_goes() -> None:
    vhost, bench, channel_session = new_vhost(), Workbench(), Desk()
    vhost.reflect(Added(queue("q")))
    live = vhost.queues[b"q"]
    channel = bench.open_channel()
    channel.channel_session = channel_session
    for tag in ("one", "two"):
        live.subscribe(new_consumer(channel, live, tag))
    live.publish(message())
    vhost.reflect(Removed(queue("q")))
    assert channel_session.lost == [b"one", b"two"]
    assert live.deleted
    # What was delivered can still be settled.
    channel.settle(1, False, 0, 0)


def test_a_reply_address_is_reached_until_it_is_removed() -> None:
    vhost = new_vhost()
    reply = vhost.add_reply(b"amq.rabbitmq.reply-to.x")
    assert isinstance(reply, ReplyQueue)
    default = vhost.exchanges[b""]
    assert vhost.router.resolve(default, [b"amq.rabbitmq.reply-to.x"], None) == (reply,)
    assert reply.name not in vhost.queues
    vhost.remove_reply(reply.name)
    assert vhost.router.resolve(default, [b"amq.rabbitmq.reply-to.x"], None) == ()
    assert reply.deleted


@pytest.mark.parametrize("change", ["add", "remove"])
def test_reply_addresses_make_routes_forgotten(change: str) -> None:
    vhost = new_vhost()
    if change == "remove":
        vhost.add_reply(b"r")
    before = vhost.router.generation
    vhost.add_reply(b"r") if change == "add" else vhost.remove_reply(b"r")
    assert vhost.router.generation > before


# ---- exchanges that keep something


def test_a_delayed_message_goes_through_its_exchange_when_its_time_has_come() -> None:
    office = Office(1_700_000_000_000)
    vhost = LiveVhost("/", lambda count: 0, office=office)
    arguments = {"x-delayed-type": "direct"}
    vhost.reflect(Added(ExchangeRecord("/", "x", "x-delayed-message", True, False, False, arguments)))
    for name in ("q", "copy", "blind"):
        vhost.reflect(Added(queue(name)))
        vhost.reflect(Added(to_queue("x", name, key=name)))
    one = message(b"x", exchange="x", key="q", headers={"CC": ["copy"], "BCC": ["blind"]})
    one.stamp = office.now + 10
    vhost.exchanges[b"x"].holder.publish(one)
    office.now += 10
    vhost.exchanges[b"x"].exchange_store.delays.ring()
    for name in (b"q", b"copy", b"blind"):
        (entry,) = vhost.queues[name].ready_entries()
        assert (entry.message.body, entry.message.stamp, entry.message.lone) == (b"x", office.now, False)
        assert shown(entry.message).properties.headers() == {"CC": ["copy"]}


def test_with_an_exchange_goes_what_it_keeps() -> None:
    vhost = new_vhost()
    record = ExchangeRecord("/", "x", "x-delayed-message", True, False, False, {"x-delayed-type": "direct"})
    vhost.reflect(Added(record))
    exchange_store = vhost.exchanges[b"x"].exchange_store
    vhost.reflect(Removed(record))
    assert exchange_store.deleted


def test_a_queue_with_a_lease_has_one_as_long_as_it_exists() -> None:
    vhost = new_vhost()
    vhost.reflect(Added(queue("q", **{"x-expires": 1000})))
    vhost.reflect(Added(queue("other")))
    assert len(vhost.queue_expiry) == 1
    vhost.reflect(Removed(queue("q", **{"x-expires": 1000})))
    assert len(vhost.queue_expiry) == 0
