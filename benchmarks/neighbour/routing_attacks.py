"""Messages whose routing costs much more than their octets, and many publishers at once."""

from __future__ import annotations

import itertools
from contextlib import ExitStack

from benchmarks.neighbour.attack import Attack, Ground, Tally
from benchmarks.neighbour.link import Link, content, flood, repeated
from leveret.core.codec.properties import encode_properties
from leveret.wire.basic_methods import BasicPublish
from leveret.wire.exchange_methods import ExchangeDeclare, ExchangeDeclareOk
from leveret.wire.method import Table
from leveret.wire.queue_methods import QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk

EXCHANGE, QUEUE = "x", "q"
TOPIC_WORDS = ("a", "*", "#")
TOPIC_PATTERN_WORDS = 8  # 3 ** 8 = 6,561 bindings
TOPIC_KEY_WORDS = 121
FANOUT_QUEUES = 5_000
HEADER_BINDINGS, HEADERS_EACH = 100, 100
BUSY_CONNECTIONS = 50
# What waits in a queue of the attacker is bounded: its memory is another row's subject.
SHORT: Table = {"x-max-length": 10}


def _queues(link: Link, names: list[str]) -> None:
    link.send(1, *(QueueDeclare(name, arguments=SHORT, nowait=True) for name in names[:-1]))
    link.call(1, QueueDeclare(names[-1], arguments=SHORT), QueueDeclareOk)


def _bindings(link: Link, bindings: list[QueueBind]) -> None:
    link.send(1, *bindings[:-1])
    link.call(1, QueueBind(bindings[-1].queue, EXCHANGE, bindings[-1].routing_key), QueueBindOk)


def _prepare_topic(ground: Ground) -> None:
    with ground.link() as link:
        link.call(1, ExchangeDeclare(EXCHANGE, "topic"), ExchangeDeclareOk)
        _queues(link, [QUEUE])
        patterns = (".".join(words) for words in itertools.product(TOPIC_WORDS, repeat=TOPIC_PATTERN_WORDS))
        _bindings(link, [QueueBind(QUEUE, EXCHANGE, pattern, nowait=True) for pattern in patterns])


def _publish_topic(ground: Ground, tally: Tally, until: float) -> None:
    """Each key is another one, so that no cache of routes helps."""
    keys = [".".join("a" * (TOPIC_KEY_WORDS - 4) + f"{number:04}") for number in range(400)]
    chunk = b"".join(content(1, BasicPublish(EXCHANGE, key), b"", b"") for key in keys)
    _flood(ground, tally, until, chunk, len(keys))


def _prepare_fanout(ground: Ground) -> None:
    with ground.link() as link:
        link.call(1, ExchangeDeclare(EXCHANGE, "fanout"), ExchangeDeclareOk)
        names = [f"{QUEUE}{number}" for number in range(FANOUT_QUEUES)]
        _queues(link, names)
        _bindings(link, [QueueBind(name, EXCHANGE, nowait=True) for name in names])


def _publish_fanout(ground: Ground, tally: Tally, until: float) -> None:
    chunk, count = repeated(content(1, BasicPublish(EXCHANGE, ""), b"", b"x"))
    _flood(ground, tally, until, chunk, count)


def _prepare_headers(ground: Ground) -> None:
    with ground.link() as link:
        link.call(1, ExchangeDeclare(EXCHANGE, "headers"), ExchangeDeclareOk)
        _queues(link, [QUEUE])
        # Each of them only asks whether the header is there, which no index of values answers.
        wanted: Table = {f"h{number}": None for number in range(HEADERS_EACH)}
        bindings = [QueueBind(QUEUE, EXCHANGE, str(key), True, wanted) for key in range(HEADER_BINDINGS)]
        _bindings(link, [*bindings, QueueBind(QUEUE, EXCHANGE, "last")])


def _publish_headers(ground: Ground, tally: Tally, until: float) -> None:
    headers = encode_properties(headers={f"h{number}": True for number in range(HEADERS_EACH)})
    chunk, count = repeated(content(1, BasicPublish(EXCHANGE, ""), headers, b""))
    _flood(ground, tally, until, chunk, count)


def _prepare_busy(ground: Ground) -> None:
    with ground.link() as link:
        _queues(link, [QUEUE])


def _publish_busily(ground: Ground, tally: Tally, until: float) -> None:
    chunk, count = repeated(content(1, BasicPublish("", QUEUE), b"", b"x" * 100))
    _flood(ground, tally, until, chunk, count, BUSY_CONNECTIONS)


def _flood(ground: Ground, tally: Tally, until: float, chunk: bytes, messages: int, connections: int = 1) -> None:
    with ExitStack() as opened:
        links = [opened.enter_context(ground.link()) for _ in range(connections)]
        flood(links, chunk, until, lambda chunks: tally.add(chunks * messages))


ATTACKS = (
    Attack("topic bindings of a, * and #", "messages", _publish_topic, _prepare_topic),
    Attack("fanout to 5,000 queues", "messages", _publish_fanout, _prepare_fanout),
    Attack("10,000 header predicates", "messages", _publish_headers, _prepare_headers),
    Attack("50 busy publishers", "messages", _publish_busily, _prepare_busy),
)
