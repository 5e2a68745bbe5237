"""The node's own families, without a label for any object: identity, totals, room, churn, and how long things take.

Grouped as RabbitMQ does, because /metrics/detailed asks for groups. What RabbitMQ has and we do not (the Erlang VM,
Raft as long as there is no group) is not there: a number that means nothing is worse than none."""

from __future__ import annotations

import platform
from typing import Final

from leveret.management.metrics.exposition import Family, Kind, Labels, Number
from leveret.management.metrics.source import Source
from leveret.management.metrics.sums import QueueSums
from leveret.operations.statistics.totals import Totals
from leveret.runtime import process

# As logins and as RabbitMQ's metrics call them.
PROTOCOLS: Final = {"amqp": "amqp091", "stream": "stream", "http": "http"}


def family(name: str, kind: Kind, help: str, value: Number, labels: Labels = ()) -> Family:
    return Family(name, kind, help).add(value, labels)


def identity(source: Source, endpoint: str) -> list[Family]:
    who, announced = source.identity, source.broker.announced
    # What an operator has called the cluster goes before the settings.
    chosen = source.broker.catalog.global_parameters.get("cluster_name")
    cluster = who.cluster if chosen is None else str(chosen.value)
    return [
        family(
            "rabbitmq_identity_info",
            "gauge",
            "Which node and cluster this is",
            1,
            (
                ("rabbitmq_node", who.node),
                ("rabbitmq_cluster", cluster),
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
                ("rabbitmq_version", announced.version),
                ("product_name", announced.product),
                ("product_version", announced.version),
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
        family(f"rabbitmq_{name}_total", "counter", text, totals.churn[key])
        for name, key, text in (
            ("connections_opened", "connection_created", "Connections opened"),
            ("connections_closed", "connection_closed", "Connections closed"),
            ("channels_opened", "channel_created", "Channels opened"),
            ("channels_closed", "channel_closed", "Channels closed"),
            ("queues_declared", "queue_declared", "Declarations of queues, new or not"),
            ("queues_created", "queue_created", "Queues created"),
            ("queues_deleted", "queue_deleted", "Queues deleted"),
        )
    ]


def room(source: Source, totals: Totals) -> list[Family]:
    """What is used of memory, disk and descriptors."""
    found = [family("rabbitmq_process_open_tcp_sockets", "gauge", "Clients that are connected", totals.connections)]
    descriptors = process.descriptors_used()
    # Not every system says.
    if descriptors:
        found.append(family("rabbitmq_process_open_fds", "gauge", "Open file descriptors", descriptors))
    watched = source.watched()
    if watched is not None:
        text = "Memory that the process holds"
        found.append(family("rabbitmq_process_resident_memory_bytes", "gauge", text, watched.resident_bytes))
        if watched.disk_free_bytes is not None:
            text = "What is free on the disk of the data directory"
            found.append(family("rabbitmq_disk_space_available_bytes", "gauge", text, watched.disk_free_bytes))
        text = "Memory that was freed and given back to the system"
        found.append(family("leveret_memory_returned_bytes_total", "counter", text, watched.returned_bytes_total))
        text = "Full collections of the garbage because memory was short"
        found.append(family("leveret_memory_collections_total", "counter", text, watched.collections_total))
        text = "Memory alarms that were not raised because that was enough"
        averted = watched.memory_alarms_averted_total
        found.append(family("leveret_memory_alarms_averted_total", "counter", text, averted))
    return found


def limits(source: Source) -> list[Family]:
    descriptors = process.descriptors_max()
    uptime_s = max(0.0, source.broker.clock.wall() - source.started_at)
    found = [
        family("rabbitmq_process_max_fds", "gauge", "How many file descriptors it may open", descriptors),
        family("rabbitmq_erlang_uptime_seconds", "gauge", "For how long the node has been running", uptime_s),
    ]
    if source.descriptors is not None:
        sockets = sum(share.limit for share in source.descriptors.budget.shares)
        text = "How many clients it has file descriptors for"
        found.append(family("rabbitmq_process_max_tcp_sockets", "gauge", text, sockets))
    watched = source.watched()
    if watched is not None:
        text = "At how much memory publishers are blocked"
        found.append(family("rabbitmq_resident_memory_limit_bytes", "gauge", text, watched.memory_watermark_bytes))
        text = "At how little free disk publishers are blocked"
        found.append(family("rabbitmq_disk_space_available_limit_bytes", "gauge", text, watched.disk_free_bytes_min))
    return found


def disk(source: Source, totals: Totals) -> list[Family]:
    """What the store has read and written; nothing of a broker that keeps nothing."""
    store = source.broker.store
    if store is None:
        return []
    io, read = store.io_totals(), store.read_totals()
    sync = totals.times.get("fsync")
    return [
        family(
            "leveret_storage_records_quarantined_total",
            "counter",
            "Records that were given up because they are damaged or cannot be read",
            read.quarantined,
        ),
        family(
            "leveret_storage_read_retries_total",
            "counter",
            "Reads that were tried again because something was short or failed",
            read.retries,
        ),
        family("leveret_storage_reads_waiting", "gauge", "Readers that wait for another try now", read.waiting),
    ] + [
        family(f"rabbitmq_io_{name}_total", "counter", text, value)
        for name, text, value in (
            ("read_ops", "Reads from the data directory", io.reads),
            ("read_bytes", "Octets read from the data directory", io.read_bytes),
            ("write_ops", "Writes to the data directory", io.writes),
            ("write_bytes", "Octets written to the data directory", io.written_bytes),
            ("sync_ops", "Syncs of the data directory", io.syncs),
            ("sync_time_seconds", "How long syncs took, all together", 0.0 if sync is None else sync.sum),
        )
    ]


def descriptors(source: Source) -> list[Family]:
    """The budget: what each kind of socket may have and has, and how often a peer had to wait."""
    watched = source.descriptors
    if watched is None:
        return []
    limit = Family("leveret_descriptors_limit", "gauge", "File descriptors that each user may hold")
    used = Family("leveret_descriptors_used", "gauge", "Sockets that are open, by kind")
    text = "How often a peer had to wait because its kind had no file descriptor left"
    refused = Family("leveret_descriptors_refused_total", "counter", text)
    limit.add(watched.budget.storage, (("share", "storage"),))
    for share in watched.budget.shares:
        labels = (("share", share.name),)
        limit.add(share.limit, labels)
        used.add(share.used, labels)
        refused.add(share.refused_total, labels)
    text = "How often storage had to wait, by what was short"
    shortages = Family("leveret_storage_shortages_total", "counter", text)
    for resource, count in watched.shortages_total.items():
        shortages.add(count, (("resource", resource),))
    return [limit, used, refused, shortages]


def alarms(source: Source) -> list[Family]:
    """Alarms by resource. The alarm for file descriptors blocks no publisher, but new connections wait."""
    raised = source.broker.alarms
    text = "1 while publishers are blocked because %s is short"
    name = "rabbitmq_alarms_file_descriptor_limit"
    return [
        family(name, "gauge", "1 while file descriptors are short", int("file_descriptor_limit" in raised)),
        family("rabbitmq_alarms_memory_used_watermark", "gauge", text % "memory", int("memory" in raised)),
        family("rabbitmq_alarms_free_disk_space_watermark", "gauge", text % "disk", int("disk" in raised)),
    ]


def logins(source: Source) -> list[Family]:
    every = Family("rabbitmq_auth_attempts_total", "counter", "Logins that were tried")
    good = Family("rabbitmq_auth_attempts_succeeded_total", "counter", "Logins that succeeded")
    bad = Family("rabbitmq_auth_attempts_failed_total", "counter", "Logins that were refused")
    for name, protocol in PROTOCOLS.items():
        attempts = source.broker.logins.attempts[name]
        labels = (("protocol", protocol),)
        every.add(attempts.succeeded + attempts.failed, labels)
        good.add(attempts.succeeded, labels)
        bad.add(attempts.failed, labels)
    return [every, good, bad]


def existing(totals: Totals) -> list[Family]:
    return [
        family("rabbitmq_connections", "gauge", "Connections that are open", totals.connections),
        family("rabbitmq_channels", "gauge", "Channels that are open", totals.channels),
        family("rabbitmq_queues", "gauge", "Queues and streams that exist", totals.queues),
        family("rabbitmq_consumers", "gauge", "Consumers of both protocols", totals.consumers),
        family("leveret_exchanges", "gauge", "Exchanges that exist", totals.exchanges),
    ]


def own(source: Source, totals: Totals, sums: QueueSums) -> list[Family]:
    """What RabbitMQ does not tell."""
    found = [
        family(
            "leveret_queues_without_consumers",
            "gauge",
            "Queues with ready messages and without consumers",
            sums.stranded,
        ),
        family(
            "leveret_publishers_blocked",
            "gauge",
            "Connections that are not read now because they publish during an alarm or ahead of the disk",
            totals.publishers_blocked,
        ),
        family(
            "leveret_publishers_blocked_seconds_total",
            "counter",
            "How long connections were not read for such a reason, all together",
            totals.publishers_blocked_seconds,
        ),
        family("leveret_messages_delayed", "gauge", "Messages that are not due yet", totals.messages_delayed),
    ]
    text = "Users who are not let in until an operator decides, because the catalog was damaged"
    found.append(family("leveret_users_suspended", "gauge", text, len(source.broker.catalog.suspensions)))
    store = source.broker.store
    if store is not None:
        text = "Places in the data directory that the start found damaged or missing"
        found.append(family("leveret_storage_damages", "gauge", text, len(store.damages)))
        if store.backups is not None:
            text = "When the last complete backup since the start ended, 0 if there was none"
            found.append(family("leveret_backup_last_timestamp_seconds", "gauge", text, store.backups.done_at))
    if source.http_leases is not None:
        text = "Messages that were handed out over HTTP and are not settled yet"
        found.append(family("leveret_http_leases", "gauge", text, source.http_leases()))
    if source.http_sessions is not None:
        text = "Logins of browsers whose sessions have not ended"
        found.append(family("leveret_http_sessions", "gauge", text, source.http_sessions()))
    if source.firehoses is not None:
        text = "Messages that were noted while their virtual host was traced, published and delivered ones"
        found.append(family("leveret_firehose_noted_total", "counter", text, source.firehoses.noted_total))
        text = "Messages of traced virtual hosts that were not noted, because too many were waiting"
        found.append(family("leveret_firehose_missed_total", "counter", text, source.firehoses.missed_total))
    certificates = source.certificates()
    if certificates:
        ends = Family("leveret_tls_certificate_expiry_timestamp_seconds", "gauge", "When a certificate of ours ends")
        for certificate in certificates:
            ends.add(certificate.ends_at_s, (("certificate", certificate.name),))
        found.append(ends)
    return found


def times(totals: Totals) -> list[Family]:
    return [
        Family(f"leveret_{name}_seconds", "histogram", TIMES[name]).add_histogram(
            spread.bounds, spread.counts, spread.sum
        )
        for name, spread in sorted(totals.times.items())
    ]


TIMES: Final = {
    "event_loop_lag": "How late the broker's loop gets to what is due",
    "fsync": "How long the disk takes to say that it has what was written",
    "gc_pause": "How long the interpreter's garbage collector stops everything",
    "time_in_queue": "From a message's arrival to its acknowledgement, or to its delivery without one",
}
