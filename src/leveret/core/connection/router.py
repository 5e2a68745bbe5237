"""From an address to queues: exchanges, the bindings between them, alternates, and a cache of the answers.

One router serves one virtual host. It holds no bindings itself (the matchers do) and knows nothing of users: who
may publish where is the publish path's question. `changed` must be called after every change of what exists or is
bound."""

import cython

from leveret.core.matching.matcher import Matcher
from leveret.core.observe.meter import Meter
from leveret.core.queue.contract import Queue

if not cython.compiled:
    from leveret.core.observe.meter import FOUND_SHIFT, NODES_SHIFT

# The cache is emptied when it holds this many queue references; at most some 16 MiB with long keys.
CACHED_TARGETS_MAX = 65536
# An exchange whose matcher may look at more than this in one step, or that leads to others, is asked in steps that can
# be left. For the others that would only cost: a short answer needs none of it.
WALKED_STEPS_MIN = 256


class NamesMatcher(Matcher):
    """The default exchange: every queue is bound by its name, and nothing else can be. Direct reply-to addresses
    are reached the same way, without being queues that anybody could list or declare."""

    def __init__(self, queues, replies):
        Matcher.__init__(self)
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
        "deleted",
        "downstream",
        "gives_ids",
        "holder",
        "internal",
        "exchange_store",
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
        self.deleted = False
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
        self.exchange_store = None
        # Who watches what is published here; None if nobody does.
        self.tap = None
        # Whether messages that come without a message id get one.
        self.gives_ids = False
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

    __slots__ = ("address", "exchange", "generation", "key", "keyed", "targets")


class Walk:
    """The way of one message through exchanges to queues, which can be left and gone on with."""

    __slots__ = ("exchange", "exchanges", "found", "key_at", "keys", "properties", "reached", "seen", "steps", "todo")

    def __init__(self, exchanges, start, keys, properties):
        self.exchanges = exchanges
        self.keys = keys
        self.properties = properties
        # The exchange being asked, with which of the keys, and what its matcher has begun; what it found so far.
        self.exchange = None
        self.key_at = 0
        self.steps = None
        self.found = []
        self.todo = [start]
        # Insertion order is delivery order; membership keeps every queue and exchange to one visit.
        self.reached = {}
        self.seen = {start}

    def go_on(self, meter):
        """Whether it is over; else the meter is."""
        while self.exchange is not None or self.todo:
            if self.exchange is None:
                self.exchange = self.todo.pop()
                self.key_at = 0
            if not self.ask(meter):
                return False
            meter.spent += 1 + (len(self.found) >> FOUND_SHIFT)
            self.follow()
            if meter.spent >= meter.limit and self.todo:
                return False
        return True

    def ask(self, meter):
        """Whether the exchange has said all it has to say."""
        matcher = self.exchange.matcher
        while self.key_at < len(self.keys):
            if self.steps is not None:
                if not self.steps.go_on(meter, self.found):
                    return False
                self.steps = None
            else:
                self.steps = matcher.start(self.keys[self.key_at], self.properties, self.found, meter)
                meter.spent += matcher.visited >> NODES_SHIFT
                matcher.visited = 0
                if self.steps is not None:
                    return False
            # A matcher that picks one destination does not pick again for copies.
            self.key_at = len(self.keys) if matcher.first_key_only else self.key_at + 1
        return True

    def follow(self):
        """From what the exchange has found to queues and to further exchanges, or to its alternate."""
        alternate = self.exchange.alternate
        if not self.found and alternate is not None and alternate in self.exchanges:
            self.found.append(self.exchanges[alternate])
        for destination in self.found:
            if isinstance(destination, Queue):
                self.reached[destination] = True
            elif destination not in self.seen:
                self.seen.add(destination)
                self.todo.append(destination)
        self.found.clear()
        self.exchange = None
        return 0


class Router:
    __slots__ = ("cached_targets", "exchanges", "generation", "meter", "queues", "routes")

    def __init__(self, exchanges, queues, meter=None):
        self.meter = meter if meter is not None else Meter()
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
        """The route of an address (exchange and key as short strings), or None if there is no such exchange. Its
        targets may not be known yet: see `remember`."""
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
        route.keyed = self.by_key_only(exchange)
        route.targets = None
        self.count_cached(1)
        self.routes[address] = route
        return route

    def count_cached(self, count):
        self.cached_targets += count
        if self.cached_targets > CACHED_TARGETS_MAX:
            self.routes.clear()
            self.cached_targets = 0
        return 0

    def remember(self, route, targets):
        """The targets of this route were found, and stay the same as long as nothing is declared or bound."""
        if route.keyed and route.generation == self.generation:
            route.targets = targets
            self.count_cached(len(targets))
        return 0

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
        self.meter.spent += len(seen) >> FOUND_SHIFT
        return True

    def is_short(self, exchange):
        """Whether this exchange can be asked in one go."""
        if exchange.downstream is not None or exchange.alternate is not None:
            return False
        return exchange.matcher.steps_max < WALKED_STEPS_MIN

    def walk(self, start, key, properties):
        return Walk(self.exchanges, start, [key], properties)

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
            self.meter.spent += (matcher.visited >> NODES_SHIFT) + (len(found) >> FOUND_SHIFT)
            matcher.visited = 0
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
