"""The resource matrix in docs/security.md has everything that a peer can make, and every limit that there is.

Listed from the tables that the protocols themselves run by, so that a new method, command or route cannot be forgotten:
it is in the matrix, or it is here among those that make nothing."""

from __future__ import annotations

import re
from pathlib import Path

from leveret.auth.node_limits import NodeLimits
from leveret.management.api.table import make_table
from leveret.node.config.declaring import declarations
from leveret.wire.codec import METHODS, method_name
from leveret.wire.stream_commands import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "security.md"

# Answers and what only the broker says.
SAID_BY_THE_BROKER = {
    "basic.cancel-ok", "basic.consume-ok", "basic.deliver", "basic.get-empty", "basic.get-ok", "basic.qos-ok",
    "basic.recover-ok", "basic.return", "channel.open-ok", "confirm.select-ok", "connection.blocked",
    "connection.open-ok", "connection.secure", "connection.start", "connection.tune", "connection.unblocked",
    "connection.update-secret-ok", "exchange.bind-ok", "exchange.declare-ok", "exchange.delete-ok",
    "exchange.unbind-ok", "queue.bind-ok", "queue.declare-ok", "queue.delete-ok", "queue.purge-ok", "queue.unbind-ok",
    "tx.commit-ok", "tx.rollback-ok", "tx.select-ok", "access.request-ok",
}  # fmt: skip
# What clients send that leaves nothing behind, or takes something away.
METHODS_THAT_MAKE_NOTHING = {
    "access.request", "basic.ack", "basic.cancel", "basic.nack", "basic.qos", "basic.recover", "basic.recover-async",
    "basic.reject", "channel.close", "channel.close-ok", "channel.flow", "channel.flow-ok", "confirm.select",
    "connection.close", "connection.close-ok", "connection.secure-ok", "exchange.delete", "exchange.unbind",
    "queue.delete", "queue.purge", "queue.unbind", "tx.commit", "tx.rollback",
}  # fmt: skip
COMMANDS_THAT_MAKE_NOTHING = {
    "Close", "ConsumerUpdate", "Delete", "DeletePublisher", "DeleteSuperStream", "ExchangeCommandVersions", "Heartbeat",
    "Metadata", "MetadataUpdate", "Partitions", "QueryOffset", "QueryPublisherSequence", "ResolveOffsetSpec", "Route",
    "StreamStats", "Unsubscribe", "Deliver", "PublishConfirm", "PublishError",
}  # fmt: skip
# Publishing is the data plane's, which has no class for it.
COMMANDS_OF_THE_DATA_PLANE = {"Publish"}
ROUTES_THAT_MAKE_NOTHING = {
    "PUT /api/queues/{vhost}/{queue}/pause", "PUT /api/queues/{vhost}/{queue}/resume",
    "PUT /api/shovels/vhost/{vhost}/{name}/pause",
    "POST /api/definitions/diff", "PUT /api/feature-flags/{name}/enable", "POST /api/rebalance/queues",
    "POST /api/queues/{vhost}/{queue}/ack", "POST /api/queues/{vhost}/{queue}/nack",
    "POST /queues/{vhost}/{queue}/ack", "POST /queues/{vhost}/{queue}/nack",
    "POST /api/queues/{vhost}/{queue}/actions", "POST /api/queues/quorum/{vhost}/{queue}/replicas/add",
    "POST /api/queues/quorum/replicas/on/{node}/grow", "POST /api/simulate-route",
    "POST /api/policies/{vhost}/{name}/preview", "POST /api/users/bulk-delete",
    "POST /api/auth/hash_password", "POST /api/vhosts/{vhost}/deletion/protection",
    "POST /api/vhosts/{vhost}/start/{node}",
}  # fmt: skip


def rows() -> list[list[str]]:
    section = PAGE.read_text().partition("## Resource matrix")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def named(column: int) -> set[str]:
    return {name for row in rows() for name in re.findall(r"`([^`]+)`", row[column])}


def test_every_row_says_what_happens_beyond() -> None:
    assert len(rows()) > 20
    for what, _, limit, beyond in rows():
        assert limit, what
        assert beyond or limit.startswith("none"), what


def test_every_method_of_amqp_is_in_the_matrix_or_makes_nothing() -> None:
    known = {method_name(number) for number in METHODS}
    mentioned = {name for name in named(1) if re.fullmatch(r"[a-z]+\.[a-z-]+", name)}
    assert mentioned <= known
    assert not mentioned & METHODS_THAT_MAKE_NOTHING
    assert known - mentioned == METHODS_THAT_MAKE_NOTHING | SAID_BY_THE_BROKER


def test_every_command_of_the_stream_protocol_is_in_the_matrix_or_makes_nothing() -> None:
    known = {kind.__name__ for kind in COMMANDS.values() if not kind.__name__.endswith("Response")}
    mentioned = {name for name in named(1) if re.fullmatch(r"[A-Z][A-Za-z]+", name)} - COMMANDS_OF_THE_DATA_PLANE
    assert mentioned <= known
    assert known - mentioned == COMMANDS_THAT_MAKE_NOTHING & known


def test_every_route_is_in_the_matrix_or_makes_nothing() -> None:
    routes = {f"{route.method} {route.path}" for route in make_table().routes}
    mentioned = {name for name in named(1) if re.match(r"[A-Z]+ /", name)}
    assert mentioned <= routes
    making = {route for route in routes if route.startswith(("PUT ", "POST "))}
    assert making - mentioned == ROUTES_THAT_MAKE_NOTHING


def test_every_limit_is_in_the_matrix_and_every_setting_there_is_one() -> None:
    mentioned = {name for name in named(2) if re.match(r"(limits|management)\.", name)}
    assert mentioned <= set(declarations())
    assert {f"limits.{name}" for name in NodeLimits.__struct_fields__} <= mentioned
