"""`leveret status`, `leveret check`, `leveret cluster status`, `leveret api`"""

from __future__ import annotations

import json
import time
from typing import Any

import click

from leveret.cli.asking import json_of
from leveret.cli.client import part
from leveret.cli.exit_codes import Failed, Unreachable
from leveret.cli.output import JSON, duration, print_one, print_rows, size
from leveret.cli.target import Target, targeted

WAIT_POLL_S = 0.2


def summary(client: Any) -> dict[str, Any]:
    """What an operator wants to know first."""
    overview = client.get("/overview")
    nodes = client.get("/nodes")
    node = next((one for one in nodes if one["name"] == overview["node"]), nodes[0])
    totals, objects = overview["queue_totals"], overview["object_totals"]
    rates = overview["message_stats"]
    return {
        "node": overview["node"],
        "cluster": overview["cluster_name"],
        "version": overview.get("leveret_version", ""),
        "uptime": duration(node["uptime"] / 1000),
        "alarms": ", ".join(kind for kind in ("mem", "disk_free") if node.get(f"{kind}_alarm")) or "none",
        "memory": f"{size(node['mem_used'])} of {size(node['mem_limit'])}",
        "disk free": f"{size(node['disk_free'])}, at least {size(node['disk_free_limit'])}",
        "connections": objects["connections"],
        "channels": objects["channels"],
        "queues": objects["queues"],
        "consumers": objects["consumers"],
        "messages": totals.get("messages", 0),
        "ready": totals.get("messages_ready", 0),
        "unacknowledged": totals.get("messages_unacknowledged", 0),
        "published a second": rates.get("publish_details", {}).get("rate", 0.0),
        "delivered a second": rates.get("deliver_get_details", {}).get("rate", 0.0),
        "listeners": [f"{one['protocol']} {one['ip_address']}:{one['port']}" for one in overview.get("listeners", [])],
    }


@click.command()
@targeted
def status(target: Target) -> None:
    """How the broker is."""
    print_one(summary(target.client), target.form)


@click.group()
def check() -> None:
    """Is it healthy? Exit status 0 if it is; for probes and scripts."""


def _run(target: Target, path: str) -> None:
    try:
        answer = target.client.get(f"/health/checks/{path}")
    except Failed as failure:
        if target.form == JSON and failure.told is not None:
            click.echo(json.dumps(failure.told))
        raise
    click.echo(json.dumps(answer) if target.form == JSON else "ok")


@check.command()
@targeted
@click.option("--wait", "wait_s", type=float, default=0.0, help="Retry for this many seconds.")
def running(target: Target, wait_s: float) -> None:
    """The broker answers."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            _run(target, "is-in-service")
            return
        except (Failed, Unreachable):
            if time.monotonic() >= deadline:
                raise
        time.sleep(WAIT_POLL_S)


@check.command()
@targeted
def alarms(target: Target) -> None:
    """No alarm of memory or disk holds publishers up."""
    _run(target, "alarms")


@check.command()
@targeted
def ready(target: Target) -> None:
    """It takes clients."""
    _run(target, "ready-to-serve-clients")


@check.command()
@targeted
@click.argument("number", type=int)
def port(target: Target, number: int) -> None:
    """It listens on this port."""
    _run(target, f"port-listener/{number}")


@check.command()
@targeted
@click.option("--within", default=30, show_default=True, help="Days.")
def cert(target: Target, within: int) -> None:
    """No certificate ends soon."""
    _run(target, f"certificate-expiration/{within}/days")


@check.command("quorum-critical")
@targeted
def quorum_critical(target: Target) -> None:
    """The cluster can lose this node."""
    _run(target, "node-is-quorum-critical")


@click.command("status")
@targeted
def cluster_status(target: Target) -> None:
    """Nodes, their state and what they have left."""
    columns = ("name", "running", "mem_used", "mem_limit", "disk_free", "fd_used", "sockets_used", "uptime")
    print_rows(target.client.get("/nodes"), columns, target.form)


@click.command()
@targeted
@click.argument("path")
@click.option("--method", "-X", default="GET", show_default=True)
@click.option("--data", "-d", metavar="JSON")
def api(target: Target, path: str, method: str, data: str | None) -> None:
    """Any request to the management API, such as: leveret api /overview"""
    path = "/" + path.lstrip("/").removeprefix("api/")
    answer = target.client.ask(method.upper(), path, json_of(data, "--data") if data else None)[1]
    if isinstance(answer, bytes):
        click.echo(answer)
    elif answer is not None:
        click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def node_path(client: Any) -> str:
    """The node that answers, as a path."""
    return f"/nodes/{part(client.get('/overview')['node'])}"
