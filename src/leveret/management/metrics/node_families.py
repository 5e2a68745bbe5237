"""The node's own families, without a label for any object: identity, totals, room, churn, and how long things take.

Grouped as RabbitMQ does, because /metrics/detailed asks for groups. What RabbitMQ has and we do not (the Erlang VM,
Raft as long as there is no group) is not there: a number that means nothing is worse than none."""

from __future__ import annotations

import platform
from typing import Final

from leveret.broker.compat import RABBITMQ_VERSION
from leveret.broker.statistics.totals import Totals
from leveret.management.metrics.exposition import Family, Kind, Labels, Number
from leveret.management.metrics.source import Source
from leveret.management.metrics.sums import QueueSums


def family(name: str, kind: Kind, help: str, value: Number, labels: Labels = ()) -> Family:
    return Family(name, kind, help).add(value, labels)


def identity(source: Source, endpoint: str) -> list[Family]:
    who = source.identity
    return [
        family(
            "rabbitmq_identity_info",
            "gauge",
            "Which node and cluster this is",
            1,
            (
                ("rabbitmq_node", who.node),
                ("rabbitmq_cluster", who.cluster),
                ("rabbitmq_cluster_permanent_id", who.cluster_id),
                ("rabbitmq_endpoint", endpoint),
            ),
        ),
        family(
            "rabbitmq_build_info",
            "gauge",
            "Which RabbitMQ this is like, and what it is",
            1,
            (
                ("rabbitmq_version", RABBITMQ_VERSION),
                ("product_name", "leveret"),
                ("product_version", who.version),
                # RabbitMQ's dashboards have a column for it; there is no Erlang here.
                ("erlang_version", f"none, {platform.python_implementation()} {platform.python_version()}"),
            ),
        ),
        family(
            "leveret_build_info",
            "gauge",
            "Which version runs, on which interpreter",
            1,
            (("version", who.version), ("python_version", platform.python_version())),
        ),
    ]


def churn(totals: Totals) -> list[Family]:
    return [
        family(f"rabbitmq_{name}_total", "counter", text, value)
        for name, text, value in (
            ("connections_opened", "Connections opened", totals.connections_opened),
            ("connections_closed", "Connections closed", totals.connections_closed),
            ("channels_opened", "Channels opened", totals.channels_opened),
            ("channels_closed", "Channels closed", totals.channels_closed),
            ("queues_declared", "Declarations of queues, new or not", totals.queues_declared),
            ("queues_created", "Queues created", totals.queues_created),
            ("queues_deleted", "Queues deleted", totals.queues_deleted),
        )
    ]


def room(source: Source, totals: Totals) -> list[Family]:
    """What is used of memory, disk and descriptors."""
    found = [
        family("rabbitmq_process_open_fds", "gauge", "Open file descriptors", totals.fds_used),
        family("rabbitmq_process_open_tcp_sockets", "gauge", "Clients' sockets", totals.sockets_used),
    ]
    watched = source.watched()
    if watched is not None:
        text = "Memory that the process holds"
        found.append(family("rabbitmq_process_resident_memory_bytes", "gauge", text, watched.resident_bytes))
        if watched.disk_free_bytes is not None:
            text = "What is free on the disk of the data directory"
            found.append(family("rabbitmq_disk_space_available_bytes", "gauge", text, watched.disk_free_bytes))
    return found


def limits(source: Source, totals: Totals) -> list[Family]:
    found = [
        family("rabbitmq_process_max_fds", "gauge", "How many file descriptors it may open", totals.fds_max),
        family("rabbitmq_process_max_tcp_sockets", "gauge", "How many clients it may have", totals.sockets_max),
        family("rabbitmq_erlang_uptime_seconds", "gauge", "For how long the node has been running", totals.uptime_s),
    ]
    watched = source.watched()
    if watched is not None:
        text = "At how much memory publishers are blocked"
        found.append(family("rabbitmq_resident_memory_limit_bytes", "gauge", text, watched.memory_watermark_bytes))
        text = "At how little free disk publishers are blocked"
        found.append(family("rabbitmq_disk_space_available_limit_bytes", "gauge", text, watched.disk_free_bytes_min))
    return found
