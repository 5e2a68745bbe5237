"""The cache: what counts as declared, and what is forgotten together."""

from __future__ import annotations

import pytest

from leveret.client.errors import ConnectionLost
from leveret.client.topology import Binding, Exchange, Queue, QueueCounts, QueueHandle
from leveret.client.topology.cache import Cache

NO_COUNTS = QueueCounts(0, 0)


@pytest.fixture
def cache() -> Cache:
    return Cache()


def added(cache: Cache, queue: Queue, name: str = "") -> QueueHandle:
    handle = QueueHandle(queue, name or queue.name, NO_COUNTS)
    cache.add_queue(handle)
    return handle


def test_only_the_exact_parameters_count_as_declared(cache: Cache) -> None:
    cache.add_exchange(Exchange("x", "topic", arguments={"a": 1}))
    added(cache, Queue("q", max_length=1))
    assert cache.has(Exchange("x", "topic", arguments={"a": 1}))
    assert not cache.has(Exchange("x", "topic", arguments={"a": True}))
    assert not cache.has(Exchange("x", "fanout", arguments={"a": 1}))
    assert cache.has(Queue("q", arguments={"x-max-length": 1}))
    assert not cache.has(Queue("q"))
    assert not cache.has(Queue())


def test_bindings_differ_by_every_part(cache: Cache) -> None:
    binding = Binding("x", "q", "k", arguments={"a": [1, {"b": None}]})
    cache.add_binding(binding)
    cache.add_binding(binding)
    assert cache.bindings == [binding]
    assert cache.has(Binding("x", "q", "k", arguments={"a": [1, {"b": None}]}))
    for other in (
        Binding("y", "q", "k", arguments=binding.arguments),
        Binding("x", "r", "k", arguments=binding.arguments),
        Binding("x", "q", "l", arguments=binding.arguments),
        Binding("x", "q", "k", "exchange", arguments=binding.arguments),
        Binding("x", "q", "k", arguments={"a": [True, {"b": None}]}),
    ):
        assert not cache.has(other)


def test_a_queue_takes_its_bindings_along(cache: Cache) -> None:
    cache.add_exchange(Exchange("x"))
    added(cache, Queue("q"))
    cache.add_binding(Binding("x", "q", "1"))
    cache.add_binding(Binding("x", "r", "1"))
    # An exchange of that name is something else.
    cache.add_binding(Binding("x", "q", "1", to="exchange"))
    cache.forget_queue("q")
    assert cache.handles == []
    assert cache.bindings == [Binding("x", "r", "1"), Binding("x", "q", "1", to="exchange")]


def test_an_exchange_takes_bindings_at_both_ends_along(cache: Cache) -> None:
    for name in ("x", "y", "z"):
        cache.add_exchange(Exchange(name))
    cache.add_binding(Binding("x", "y", to="exchange"))
    cache.add_binding(Binding("y", "z", to="exchange"))
    cache.add_binding(Binding("z", "y"))
    cache.forget_exchange("y")
    assert cache.bindings == [Binding("z", "y")]
    assert [exchange.name for exchange in cache.exchanges] == ["x", "z"]


def test_an_auto_delete_exchange_goes_with_its_last_binding_and_so_on(cache: Cache) -> None:
    cache.add_exchange(Exchange("one", auto_delete=True))
    cache.add_exchange(Exchange("two", auto_delete=True))
    cache.add_exchange(Exchange("kept"))
    cache.add_binding(Binding("one", "two", to="exchange"))
    cache.add_binding(Binding("two", "q"))
    cache.add_binding(Binding("two", "q", "again"))
    cache.add_binding(Binding("kept", "q"))
    cache.forget_binding(Binding("two", "q"))
    assert len(cache.exchanges) == 3
    cache.forget_queue("q")
    assert [exchange.name for exchange in cache.exchanges] == ["kept"]
    assert cache.bindings == []


def test_forgetting_an_unknown_binding_deletes_no_exchange(cache: Cache) -> None:
    cache.add_exchange(Exchange("x", auto_delete=True))
    cache.forget_binding(Binding("x", "q"))
    assert cache.exchanges == [Exchange("x", auto_delete=True)]


def test_an_auto_delete_queue_goes_with_its_last_consumer(cache: Cache) -> None:
    handle, kept = added(cache, Queue("q", auto_delete=True)), added(cache, Queue("kept"))
    cache.add_binding(Binding("x", "q"))
    for one in (handle, handle, kept):
        cache.consumer_added(one)
    cache.consumer_removed(handle)
    cache.consumer_removed(kept)
    assert len(cache.handles) == 2
    cache.consumer_removed(handle)
    assert (cache.handles, cache.bindings) == ([kept], [])
    cache.consumer_removed(handle)


def test_names_that_the_broker_made_up_lead_to_the_handle(cache: Cache) -> None:
    handle = added(cache, Queue(), "amq.gen-1")
    cache.add_binding(Binding("x", "amq.gen-1", "k"))
    handle.rename("amq.gen-2")
    assert cache.handle("amq.gen-1") is cache.handle("amq.gen-2") is cache.handle(handle) is handle
    assert [str(binding.destination) for binding in cache.bindings] == ["amq.gen-2"]
    assert cache.has(Binding("x", handle, "k")) and cache.has(Binding("x", "amq.gen-1", "k"))
    cache.forget_queue("amq.gen-1")
    assert (cache.handles, cache.bindings, cache.handle(handle)) == ([], [], None)


def test_the_handle_of_a_named_queue_is_its_name(cache: Cache) -> None:
    handle = added(cache, Queue("q"))
    cache.add_binding(Binding("x", handle))
    assert cache.has(Binding("x", "q"))
    assert cache.bindings == [Binding("x", "q")]


def test_what_is_doubted_is_declared_again(cache: Cache) -> None:
    handle = added(cache, Queue("q"))
    cache.add_binding(Binding("x", "q"))
    cache.doubt_queue(handle)
    assert not cache.has(Queue("q")) and not cache.has(Binding("x", "q"))
    cache.add_queue(handle)
    assert cache.has(Queue("q")) and not cache.has(Binding("x", "q"))
    cache.doubt_everything()
    assert not cache.has(Queue("q"))


def test_what_broke_the_connection_is_remembered_until_it_is_declared(cache: Cache) -> None:
    exchange, lost = Exchange("x", "x-unknown"), ConnectionLost("unknown type", 503)
    cache.add_exchange(exchange)
    cache.blame(exchange, lost)
    assert cache.breaker(exchange) is lost and not cache.has(exchange)
    cache.add_exchange(exchange)
    assert cache.breaker(exchange) is None and cache.has(exchange)
