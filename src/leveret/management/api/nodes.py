"""Nodes as operators see them: this one, as long as there is no cluster."""

from __future__ import annotations

import os
import time

from leveret import __version__
from leveret.auth.access import Right
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.management.api.numbers import NODE_STATS, SPAN_PARAMETERS, Described, detailed, without_rates
from leveret.management.api.overview import contexts, exchange_types
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Parameter, route
from leveret.management.services import Services, WatchedDescriptors
from leveret.runtime import process
from leveret.storage.store_totals import ReadTotals

MEMORY = Parameter("memory", "What memory is used for, too.", {"type": "boolean"})
COLUMNS = Parameter("columns", "Only these columns, separated by commas.")
# What is reported of a disk whose free space is unknown: no alarm is to follow.
UNKNOWN_SPACE = 1 << 53
MEMORY_ALARM, DISK_ALARM, DESCRIPTOR_ALARM = "memory", "disk", "file_descriptor_limit"


def describe_node(request: Request, name: str) -> Described:
    services = request.services
    broker, watched = services.broker, services.watched()
    found: Described = {
        "name": name,
        "type": "disc",
        "running": True,
        "being_drained": not services.in_service(),
        "partitions": [],
        "cluster_links": [],
        "os_pid": str(os.getpid()),
        "uptime": max(0, int((time.time() - services.started_at) * 1000)),
        "processors": process.processors(),
        "rates_mode": "basic",
        "net_ticktime": 60,
        "fd_total": process.descriptors_max(),
        "fd_alarm": DESCRIPTOR_ALARM in broker.alarms,
        **described_descriptors(services.descriptors),
        "proc_total": process.threads_max(),
        "mem_limit": 0 if watched is None else watched.memory_watermark_bytes,
        "mem_alarm": MEMORY_ALARM in broker.alarms,
        "mem_calculation_strategy": "rss",
        "mem_returned": 0 if watched is None else watched.returned_bytes_total,
        "mem_collections": 0 if watched is None else watched.collections_total,
        "mem_alarms_averted": 0 if watched is None else watched.memory_alarms_averted_total,
        "disk_free_limit": 0 if watched is None else watched.disk_free_bytes_min,
        "disk_free_alarm": DISK_ALARM in broker.alarms,
        **storage_reads(services),
        "db_dir": services.data_dir,
        "config_files": [],
        "log_files": ["<stderr>"],
        "enabled_plugins": [],
        "applications": [{"name": "leveret", "description": "Leveret", "version": __version__}],
        "auth_mechanisms": [{"name": name, "description": "", "enabled": True} for name in services.mechanisms],
        "exchange_types": exchange_types(),
        "contexts": contexts(request),
    }
    found |= node_stats(request)
    if request.flag("memory"):
        found["memory"] = memory_breakdown(services)
    return found


def described_descriptors(watched: WatchedDescriptors | None) -> Described:
    """Which kind of socket may have how many, and has; how often storage had to wait."""
    if watched is None:
        return {"sockets_total": process.descriptors_max()}
    return {
        "sockets_total": sum(share.limit for share in watched.budget.shares),
        "descriptor_shares": {
            share.name: {"limit": share.limit, "used": share.used, "refused": share.refused_total}
            for share in watched.budget.shares
        },
        "storage_shortages": dict(watched.shortages_total),
    }


def storage_reads(services: Services) -> Described:
    """What could not be read from the data directory since the start, and what waits for that now."""
    store = services.broker.store
    read = ReadTotals() if store is None else store.read_totals()
    return {
        "storage_records_quarantined": read.quarantined,
        "storage_read_retries": read.retries,
        "storage_reads_waiting": read.waiting,
    }


def node_stats(request: Request) -> Described:
    """What goes up and down, and what was counted, with rates."""
    statistics = request.services.statistics
    now, totals = statistics.numbers.now(), statistics.totals()
    if not now["disk_free"]:
        now["disk_free"] = UNKNOWN_SPACE
    found: Described = {"run_queue": now.pop("run_queue")}
    found |= detailed(request, statistics.node, now, NODE_STATS)
    # Python counts objects, not octets.
    found |= without_rates({"gc_bytes_reclaimed": 0})
    found |= detailed(request, statistics.overview, totals.churn, NODE_STATS)
    syncs = totals.times.get("fsync")
    if syncs is not None and syncs.count:
        found["io_sync_avg_time"] = 1000 * syncs.sum / syncs.count
    return found


def memory_breakdown(services: Services) -> Described:
    """By what the kernel knows of the process, and what the broker knows of its queues: these overlap."""
    kinds = process.memory_kinds()
    in_queues = sum(
        queue.in_memory()[1] + queue.unacked_bytes
        for vhost in services.broker.vhosts.values()
        for queue in vhost.queues.values()
        if isinstance(queue, ClassicQueue)
    )
    return {
        "queue_procs": in_queues,
        "code": kinds["files"],
        "other_proc": max(0, kinds["anonymous"] - in_queues),
        "shared": kinds["shared"],
        "swapped": kinds["swapped"],
        "strategy": "rss",
        "total": {"rss": kinds["rss"], "allocated": kinds["anonymous"], "erlang": 0},
    }


NODES: Listed[str] = Listed(describe=describe_node, name=lambda name: name)


@route("GET", "/api/nodes", Right.MONITORING, "All nodes", query=(*LIST_PARAMETERS, MEMORY, *SPAN_PARAMETERS))
async def list_nodes(request: Request) -> Answer:
    return await listed(request, [request.services.node_name], NODES)


@route("GET", "/api/nodes/{name}", Right.MONITORING, "One node", query=(COLUMNS, MEMORY, *SPAN_PARAMETERS))
def get_node(request: Request) -> Described:
    return one(request, describe_node(request, named_node(request)))


@route("GET", "/api/nodes/{name}/memory", Right.MONITORING, "What a node's memory is used for")
def get_memory(request: Request) -> Described:
    named_node(request)
    return {"memory": memory_breakdown(request.services)}


@route("GET", "/api/nodes/{name}/memory/relative", Right.MONITORING, "The same in parts of a hundred")
def get_relative_memory(request: Request) -> Described:
    named_node(request)
    found = memory_breakdown(request.services)
    found.pop("strategy")
    whole = max(1, found.pop("total")["rss"])
    parts: Described = {name: round(100 * size / whole) for name, size in found.items()}
    return {"memory": {**parts, "total": 100}}


def named_node(request: Request) -> str:
    if request.path["name"] != request.services.node_name:
        raise not_found()
    return request.path["name"]
