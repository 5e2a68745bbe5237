"""What the programs print: the same for each client that speaks AMQP, and for both brokers.

A new scenario is an entry here and a function of that name in each program's table of scenarios."""

from __future__ import annotations

from typing import Any, Final

_CALLS: Final = ["call 0: 0", "call 1: 1", "call 2: 1", "call 3: 2", "call 4: 3", "call 5: 5"]
_TASKS: Final = ["task 1", "task 2", "task 3", "task 4", "task 5", "task 0"]

AMQP: Final[dict[str, Any]] = {
    # RabbitMQ's six tutorials.
    "hello": {"received": ["Hello World!"]},
    "work_queues": {"held": "task 0", "done": _TASKS, "redelivered": ["task 0"]},
    "publish_subscribe": {"first": ["info: one", "info: two"], "second": ["info: one", "info: two"]},
    "routing": {"all": ["info", "error", "warning"], "errors": ["error"]},
    "topics": {
        "all": ["kern.info", "cron.critical", "kern.critical", "kern", "a.b.critical"],
        "kernel": ["kern.info", "kern.critical"],
        "critical": ["cron.critical", "kern.critical"],
    },
    "rpc": {"queue": _CALLS, "direct": _CALLS},
    # Confirms, returns, refusals of a full queue.
    "confirms": {
        "confirmed": 100,
        "messages": 100,
        "unroutable confirmed": True,
        "returned": [312, "NO_ROUTE"],
        "full": [True, False],
    },
    "errors": {
        "missing": [404, "NOT_FOUND - no queue 'NAME-gone' in vhost '/'"],
        "inequivalent": [
            406,
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'NAME' in vhost '/': "
            "received 'true' but current is 'false'",
        ],
        "exchange": [404, "NOT_FOUND - no exchange 'NAME-gone' in vhost '/'"],
    },
    "closed": {"closed": [404, "NOT_FOUND - no exchange 'NAME-gone' in vhost '/'"]},
    "cancelled": {"cancelled": True},
    "get": {"first": ["one", 1], "again": ["one", True], "second": "two", "empty": True, "purged": 1},
    "transactions": {"received": "committed", "left": 0},
    "bodies": {"sizes": [0, 1, 131_064, 131_065, 3_000_000]},
    "properties": {"equal": True},
    "heartbeats": {"interval": 2, "open": True, "received": ["still there"]},
}

# The Java stream client.
STREAMS: Final[dict[str, Any]] = {
    "hello": {"confirmed": 1000, "in order": True},
    "offsets": {
        "from 7": ["7", "8", "9"],
        "first": ["0", "1", "2", "3", "4"],
        "again": ["5", "6", "7", "8", "9"],
        "next": ["10", "11"],
    },
    "deduplication": {"confirmed": 11, "last": 5, "received": ["0", "1", "2", "3", "4", "5", "6"]},
    "compression": {name: [100, True] for name in ("NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD")},
    "properties": {"equal": True},
    "errors": {"refused": [True, True], "exists": [False, True]},
    "heartbeats": {"undisturbed": True, "confirmed": 1, "received": ["0"]},
    "filters": {"filtered": True},
    "single_active": {"first": [True, True], "waited": True, "second": True},
    "super_stream": {"confirmed": 90, "all": True},
}
# What the control is too old for, if it is Debian's RabbitMQ 3.10.
STREAMS_SINCE: Final = {"filters": "3.13", "single_active": "3.11", "super_stream": "3.13"}

# Frameworks on aio-pika.
TASKIQ: Final[dict[str, Any]] = {
    "defaults": {"result": 42},
    "hello": {"results": True},
    "failures": {"failed": True, "error": "on purpose"},
    "delays": {"order": ["at once", "delayed"]},
    "delayed_exchange": {"order": ["at once", "delayed"]},
    "priorities": {"order": ["high", "middle", "low"]},
    "queues": {"seen": ["one", "one", "two"]},
}
FASTSTREAM: Final[dict[str, Any]] = {
    "hello": {"received": ["Hello World!", {"number": 1, "list": [1, 2]}]},
    "chain": {"received": True},
    "exchanges": {"one": ["to all"], "two": ["to all"], "kernel": ["kern.info", "kern.critical"]},
    "rpc": {"answers": [0, 1, 4, 9, 16, 25]},
    "acknowledgements": {"attempts": 3, "rejected": ["bad", "good"]},
    "heartbeats": {"undisturbed": True, "received": ["still there"]},
}

# Over any disturbance: the client comes back, what was confirmed is received, and what is exclusive is there again.
RECOVERED: Final = {"recovered": True, "after": 20, "missing": 0, "exclusive": True}
COME_BACK: Final = {"recovered": True, "after": 20, "missing": 0}
