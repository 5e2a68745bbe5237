"""From an address to queues: exchanges, the bindings between them, alternates, and a cache of the answers.

One router serves one virtual host. It holds no bindings itself (the matchers do) and knows nothing of users: who
may publish where is the intake's question. `changed` must be called after every change of what exists or is bound."""

import cython

from leveret.core.contract import Queue
from leveret.core.matcher import Matcher

# The cache is emptied when it holds this many queue references; at most some 16 MiB with long keys.
CACHED_TARGETS_MAX = 65536


class NamesMatcher(Matcher):
    """The default exchange: every queue is bound by its name, and nothing else can be. Direct reply-to addresses
    are reached the same way, without being queues that anybody could list or declare."""

    def __init__(self, queues, replies):
        self.by_key_only = True
        self.first_key_only = False
        self.count = 0
        self.queues = queues
        self.replies = replies

    def collect(self, routing_key, properties, found):
        queue = self.queues.get(routing_key)
        if queue is None and self.replies:
            queue = self.replies.get(routing_key)
        if queue is not None:
            found.append(queue)


class Exchange:
    __slots__ = (
        "alternate",
        "downstream",
        "holder",
        "internal",
        "keeper",
        "matcher",
        "name",
        "published_total",
        "record",
        "routed_total",
        "sampled",
        "series",
        "tap",
        "unroutable_total",
        "window",
    )

    def __init__(self, name, matcher, internal=False, alternate=None, record=None):
        self.name = name
        self.matcher = matcher
        self.internal = internal
        # The name of the exchange that gets what this one cannot route; it may not exist (yet).
        self.alternate = alternate
        self.record = record
        # Messages that came in, copies that went to queues, and messages for which there was none.
        self.published_total = 0
        self.routed_total = 0
        self.unroutable_total = 0
        self.series = None
        self.sampled = 0
        # The keys it has seen, if it takes each message once.
        self.window = None
        # Where messages wait that ask for a delay, if they are to be routed after it; None if queues see to that.
        self.holder = None
        # The same, and what has its keys in the log; None if it keeps nothing.
        self.keeper = None
        # Who watches what is published here; None if nobody does.
        self.tap = None
        # Exchanges bound to this one, with the number of bindings to each; None while there are none.
        self.downstream = None

    def bind(self, key, arguments, destination):
        self.matcher.add(key, arguments, destination)
        if isinstance(destination, Exchange):
            if self.downstream is None:
                self.downstream = {}
            self.downstream[destination] = self.downstream.get(destination, 0) + 1

    def unbind(self, key, arguments, destination):
        self.matcher.remove(key, arguments, destination)
        if isinstance(destination, Exchange):
            self.downstream[destination] -= 1
            if self.downstream[destination] == 0:
                del self.downstream[destination]


@cython.final
@cython.freelist(256)
@cython.cclass
class Route:
    """What is known about one address: valid while its generation is the router's."""

    __slots__ = ("address", "exchange", "generation", "key", "targets")


class Router:
    __slots__ = ("cached_targets", "exchanges", "generation", "queues", "routes")

    def __init__(self, exchanges, queues):
        self.exchanges = exchanges
        self.queues = queues
        # Grows with every change of what exists or is bound: an answer of an older generation is void.
        self.generation = 1
        self.routes = {}
        self.cached_targets = 0

    def changed(self):
        self.generation += 1
        if self.routes:
            self.routes.clear()
        self.cached_targets = 0

    def route(self, address):
        """The route of an address (exchange and key as short strings), or None if there is no such exchange."""
        route = self.routes.get(address)
        if route is not None:
            return route
        name_size = address[0]
        exchange = self.exchanges.get(address[1 : 1 + name_size])
        if exchange is None:
            return None
        route = Route.__new__(Route)
        route.address = address
        route.key = address[2 + name_size :]
        route.exchange = exchange
        route.generation = self.generation
        route.targets = self.resolve(exchange, [route.key], None) if self.by_key_only(exchange) else None
        self.cached_targets += 1 if route.targets is None else 1 + len(route.targets)
        if self.cached_targets > CACHED_TARGETS_MAX:
            self.routes.clear()
            self.cached_targets = 0
        self.routes[address] = route
        return route

    def by_key_only(self, start):
        """Whether everything reachable from this exchange routes by the key alone."""
        seen = {start}
        todo = [start]
        while todo:
            exchange = todo.pop()
            if not exchange.matcher.by_key_only:
                return False
            nearby = list(exchange.downstream) if exchange.downstream else []
            if exchange.alternate is not None and exchange.alternate in self.exchanges:
                nearby.append(self.exchanges[exchange.alternate])
            for other in nearby:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return True

    def resolve(self, start, keys, properties):
        """The queues a message reaches, each once. An exchange that finds nothing hands on to its alternate."""
        found = []
        todo = [start]
        # Insertion order is delivery order; membership keeps every queue and exchange to one visit.
        reached = {}
        seen = {start}
        while todo:
            exchange = todo.pop()
            matcher = exchange.matcher
            for key in keys:
                matcher.collect(key, properties, found)
                if matcher.first_key_only:
                    # It picks one destination, and copies do not make it pick again.
                    break
            if not found and exchange.alternate is not None:
                alternate = self.exchanges.get(exchange.alternate)
                if alternate is not None:
                    found.append(alternate)
            for destination in found:
                if isinstance(destination, Queue):
                    reached[destination] = True
                elif destination not in seen:
                    seen.add(destination)
                    todo.append(destination)
            found.clear()
        return tuple(reached)
