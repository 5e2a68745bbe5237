"""The router: from an address to queues, through bindings between exchanges and alternates, with remembered answers."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.connection.reply import ReplyQueue
from leveret.core.connection.router import Exchange, NamesMatcher, Router
from leveret.core.matching.hash_matcher import RandomMatcher
from leveret.core.matching.headers_matcher import HeadersMatcher
from leveret.core.matching.matcher import DirectMatcher, FanoutMatcher, Matcher
from leveret.core.matching.topic_trie import TopicMatcher
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from tests.unit.queues.dataplane import Workbench, message, publish_frames

CACHED_TARGETS_MAX = 65536


class Map:
    """Exchanges and queues by name, with a router over them."""

    def __init__(self) -> None:
        self.exchanges: dict[bytes, Exchange] = {}
        self.queues: dict[bytes, Queue] = {}
        self.router = Router(self.exchanges, self.queues)

    def exchange(self, name: str, matcher: Matcher | None = None, alternate: str | None = None) -> Exchange:
        other = None if alternate is None else alternate.encode()
        made = self.exchanges[name.encode()] = Exchange(name.encode(), matcher or FanoutMatcher(), False, other)
        return made

    def queue(self, name: str) -> ClassicQueue:
        made = self.queues[name.encode()] = ClassicQueue(name.encode(), None)
        return made

    def names(self, exchange: str, *keys: str, properties: Any = None) -> list[str]:
        found = self.router.resolve(self.exchanges[exchange.encode()], [key.encode() for key in keys], properties)
        return [queue.name.decode() for queue in found]


def address(exchange: str, key: str) -> bytes:
    return bytes([len(exchange)]) + exchange.encode() + bytes([len(key)]) + key.encode()


def test_a_queue_bound_often_is_reached_once() -> None:
    where = Map()
    exchange, queue = where.exchange("x", TopicMatcher()), where.queue("q")
    for pattern in (b"a.*", b"#", b"*.b"):
        exchange.bind(pattern, {}, queue)
    assert where.names("x", "a.b") == ["q"]


def test_exchanges_pass_messages_on() -> None:
    where = Map()
    first, second, third = (where.exchange(name, DirectMatcher()) for name in ("1", "2", "3"))
    first.bind(b"k", {}, second)
    second.bind(b"k", {}, third)
    third.bind(b"k", {}, where.queue("q"))
    assert where.names("1", "k") == ["q"]
    assert where.names("1", "other") == []


def test_a_circle_of_exchanges_ends() -> None:
    where = Map()
    a, b = where.exchange("a"), where.exchange("b")
    a.bind(b"", {}, b)
    b.bind(b"", {}, a)
    a.bind(b"", {}, a)
    a.bind(b"", {}, where.queue("one"))
    b.bind(b"", {}, where.queue("two"))
    assert sorted(where.names("a", "")) == ["one", "two"]
    assert sorted(where.names("b", "")) == ["one", "two"]


def test_a_queue_reached_by_two_ways_gets_the_message_once() -> None:
    where = Map()
    top, left, right = where.exchange("top"), where.exchange("left"), where.exchange("right")
    queue = where.queue("q")
    for side in (left, right):
        top.bind(b"", {}, side)
        side.bind(b"", {}, queue)
    assert where.names("top", "") == ["q"]


def test_the_alternate_gets_what_finds_no_queue() -> None:
    where = Map()
    where.exchange("x", DirectMatcher(), alternate="spare").bind(b"known", {}, where.queue("q"))
    where.exchange("spare").bind(b"", {}, where.queue("rest"))
    assert where.names("x", "known") == ["q"]
    assert where.names("x", "unknown") == ["rest"]


def test_alternates_form_chains_and_circles() -> None:
    where = Map()
    where.exchange("a", alternate="b")
    where.exchange("b", alternate="c")
    where.exchange("c", alternate="a")
    assert where.names("a", "k") == []
    where.exchanges[b"c"].bind(b"", {}, where.queue("q"))
    assert where.names("a", "k") == ["q"]


def test_an_alternate_that_does_not_exist_routes_nowhere() -> None:
    where = Map()
    where.exchange("x", alternate="missing")
    assert where.names("x", "k") == []


def test_an_exchange_downstream_has_an_alternate_of_its_own() -> None:
    where = Map()
    where.exchange("x").bind(b"", {}, where.exchange("down", DirectMatcher(), alternate="spare"))
    where.exchange("spare").bind(b"", {}, where.queue("rest"))
    assert where.names("x", "unknown") == ["rest"]


def test_further_keys_reach_further_queues_each_once() -> None:
    where = Map()
    exchange = where.exchange("x", DirectMatcher())
    exchange.bind(b"a", {}, where.queue("one"))
    exchange.bind(b"b", {}, where.queue("two"))
    exchange.bind(b"b", {}, where.queues[b"one"])
    assert sorted(where.names("x", "a", "b")) == ["one", "two"]


def test_copies_do_not_make_a_chooser_choose_again() -> None:
    where, picks = Map(), []

    def pick(count: int) -> int:
        picks.append(count)
        return len(picks) % count

    exchange = where.exchange("x", RandomMatcher(pick))
    exchange.bind(b"", {}, where.queue("one"))
    exchange.bind(b"", {}, where.queue("two"))
    assert len(where.names("x", "a", "b", "c")) == 1
    assert picks == [2]


def test_headers_are_looked_at_for_every_message() -> None:
    where = Map()
    where.exchange("x", HeadersMatcher()).bind(b"", {"colour": "red"}, where.queue("q"))
    assert where.names("x", "", properties=message(headers={"colour": "red"}).properties) == ["q"]
    assert where.names("x", "", properties=message(headers={"colour": "blue"}).properties) == []


def test_unbinding_undoes_one_binding() -> None:
    where = Map()
    exchange, down = where.exchange("x", DirectMatcher()), where.exchange("down")
    down.bind(b"", {}, where.queue("q"))
    exchange.bind(b"a", {}, down)
    exchange.bind(b"b", {}, down)
    assert exchange.downstream == {down: 2}
    exchange.unbind(b"a", {}, down)
    assert (where.names("x", "a"), where.names("x", "b")) == ([], ["q"])
    exchange.unbind(b"b", {}, down)
    assert not exchange.downstream


def test_the_default_exchange_knows_every_queue_by_its_name() -> None:
    where = Map()
    where.exchange("", NamesMatcher(where.queues, {}))
    where.queue("q")
    assert (where.names("", "q"), where.names("", "nobody"), where.names("", "")) == (["q"], [], [])


def test_the_default_exchange_reaches_reply_addresses() -> None:
    where, reply = Map(), ReplyQueue(b"amq.rabbitmq.reply-to.x")
    where.exchange("", NamesMatcher(where.queues, {reply.name: reply}))
    assert where.names("", "amq.rabbitmq.reply-to.x") == ["amq.rabbitmq.reply-to.x"]


# ---- remembered answers, seen through Workbench because a route's insides are the core's own


def test_an_unknown_exchange_has_no_route() -> None:
    where = Map()
    where.exchange("x")
    assert where.router.route(address("nowhere", "k")) is None
    assert where.router.route(address("x", "k")) is not None


def test_a_route_is_remembered_until_something_changes() -> None:
    where = Map()
    where.exchange("x")
    before, generation = where.router.route(address("x", "k")), where.router.generation
    assert where.router.route(address("x", "k")) is before
    where.router.changed()
    assert where.router.generation > generation
    assert where.router.route(address("x", "k")) is not before


def test_remembered_routes_are_bounded() -> None:
    where = Map()
    where.exchange("x")
    first = where.router.route(address("x", "first"))
    for number in range(CACHED_TARGETS_MAX):
        where.router.route(address("x", str(number)))
    assert where.router.route(address("x", "first")) is not first


@pytest.mark.parametrize("matcher", [HeadersMatcher(), RandomMatcher(lambda count: 0)], ids=["headers", "random"])
@pytest.mark.parametrize("where", ["itself", "downstream", "alternate"])
def test_nothing_is_remembered_where_more_than_the_key_counts(matcher: Matcher, where: str) -> None:
    """One address, two messages: the second goes its own way."""
    bench = Workbench()
    queue = bench.add_queue()
    chooser = bench.add_exchange("chooser", matcher)
    chooser.bind(b"", {"colour": "red"}, queue)
    bench.add_exchange("x", FanoutMatcher() if where == "downstream" else None, alternate="chooser")
    if where == "downstream":
        bench.exchanges[b"x"].bind(b"", {}, chooser)
    bench.router.changed()
    bench.open_channel()
    start = "chooser" if where == "itself" else "x"
    for colour in ("blue", "red", "blue"):
        bench.feed(publish_frames(1, start, "k", properties={"headers": {"colour": colour}}))
    assert queue.ready_count() == (1 if isinstance(matcher, HeadersMatcher) else 3)
    chooser.unbind(b"", {"colour": "red"}, queue)


def test_a_publisher_sees_every_change_of_the_bindings() -> None:
    bench = Workbench()
    one, two = bench.add_queue("one"), bench.add_queue("two")
    exchange = bench.add_exchange("x", FanoutMatcher())
    bench.open_channel()
    exchange.bind(b"", {}, one)
    bench.router.changed()
    bench.feed(publish_frames(1, "x", "k"))
    exchange.bind(b"", {}, two)
    bench.router.changed()
    bench.feed(publish_frames(1, "x", "k"))
    exchange.unbind(b"", {}, one)
    bench.router.changed()
    bench.feed(publish_frames(1, "x", "k"))
    assert (one.ready_count(), two.ready_count()) == (2, 2)
