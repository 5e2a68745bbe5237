"""Nodes as operators see them: this one, as long as there is no cluster."""

from __future__ import annotations

import os
import time

from leveret import __version__
from leveret.broker.access import Right
from leveret.core.queue import ClassicQueue
from leveret.management.api.numbers import NODE_STATS, SPAN_PARAMETERS, Described, detailed, without_rates
from leveret.management.api.overview import contexts, exchange_types
from leveret.management.http.ask import Answer, Ask
from leveret.management.http.errors import not_found
from leveret.management.http.lists import LIST_PARAMETERS, Listed, listed, one
from leveret.management.http.route import Parameter, route
from leveret.management.services import Services
from leveret.runtime import process

MEMORY = Parameter("memory", "What memory is used for, too.", {"type": "boolean"})
COLUMNS = Parameter("columns", "Only these columns, separated by commas.")
# What is told of a disk that cannot be asked: nobody is to be alarmed.
UNKNOWN_SPACE = 1 << 53
MEMORY_ALARM, DISK_ALARM = "memory", "disk"


def describe_node(ask: Ask, name: str) -> Described:
    services = ask.services
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
        "sockets_total": process.descriptors_max(),
        "proc_total": process.threads_max(),
        "mem_limit": 0 if watched is None else watched.memory_watermark_bytes,
        "mem_alarm": MEMORY_ALARM in broker.alarms,
        "mem_calculation_strategy": "rss",
        "disk_free_limit": 0 if watched is None else watched.disk_free_bytes_min,
        "disk_free_alarm": DISK_ALARM in broker.alarms,
        "db_dir": services.data_dir,
        "config_files": [],
        "log_files": ["<stderr>"],
        "enabled_plugins": [],
        "applications": [{"name": "leveret", "description": "Leveret", "version": __version__}],
        "auth_mechanisms": [{"name": name, "description": "", "enabled": True} for name in services.mechanisms],
        "exchange_types": exchange_types(),
        "contexts": contexts(ask),
    }
    found |= node_stats(ask)
    if ask.flag("memory"):
        found["memory"] = memory_breakdown(services)
    return found


def node_stats(ask: Ask) -> Described:
    """What goes up and down, and what was counted, with rates."""
    statistics = ask.services.statistics
    now, totals = statistics.numbers.now(), statistics.totals()
    if not now["disk_free"]:
        now["disk_free"] = UNKNOWN_SPACE
    found: Described = {"run_queue": now.pop("run_queue")}
    found |= detailed(ask, statistics.node, now, NODE_STATS)
    # Python counts objects, not octets.
    found |= without_rates({"gc_bytes_reclaimed": 0})
    found |= detailed(ask, statistics.overview, totals.churn, NODE_STATS)
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
async def list_nodes(ask: Ask) -> Answer:
    return await listed(ask, [ask.services.node_name], NODES)


@route("GET", "/api/nodes/{name}", Right.MONITORING, "One node", query=(COLUMNS, MEMORY, *SPAN_PARAMETERS))
def get_node(ask: Ask) -> Described:
    return one(ask, describe_node(ask, named_node(ask)))


@route("GET", "/api/nodes/{name}/memory", Right.MONITORING, "What a node's memory is used for")
def get_memory(ask: Ask) -> Described:
    named_node(ask)
    return {"memory": memory_breakdown(ask.services)}


@route("GET", "/api/nodes/{name}/memory/relative", Right.MONITORING, "The same in parts of a hundred")
def get_relative_memory(ask: Ask) -> Described:
    named_node(ask)
    found = memory_breakdown(ask.services)
    found.pop("strategy")
    whole = max(1, found.pop("total")["rss"])
    parts: Described = {name: round(100 * size / whole) for name, size in found.items()}
    return {"memory": {**parts, "total": 100}}


def named_node(ask: Ask) -> str:
    if ask.path["name"] != ask.services.node_name:
        raise not_found()
    return ask.path["name"]
