"""The verbs that say how the broker is; and a few that set something of the whole."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from leveret import __version__
from leveret.cli.client import Client, part
from leveret.cli.ctl.printing import announce, formatter, print_rows
from leveret.cli.ctl.registry import verb
from leveret.cli.ctl.words import Words
from leveret.cli.exit_codes import Failed, Unreachable
from leveret.cli.status import node_path, summary

AWAIT_S = 300.0
AWAIT_POLL_S = 0.3


@verb("status", "cluster_status")
def status(client: Client, words: Words) -> None:
    words.take()
    found: dict[str, Any] = summary(client)
    if formatter(words) == "json":
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    announce(words, f"Status of node {found['node']} ...")
    for name, value in found.items():
        click.echo(f"{name}: {', '.join(value) if isinstance(value, list) else value}")


@verb("ping", "check_running", "node_health_check", "is_running")
def ping(client: Client, words: Words) -> None:
    words.take()
    client.get("/health/checks/is-in-service")
    click.echo("Ping succeeded" if words.verb == "ping" else "ok")


@verb("await_startup", "wait", "await_online_nodes")
def await_startup(client: Client, words: Words) -> None:
    words.take()
    deadline = time.monotonic() + words.number("timeout", AWAIT_S)
    while True:
        try:
            client.get("/health/checks/is-in-service")
            return
        except (Failed, Unreachable):
            if time.monotonic() >= deadline:
                raise
        time.sleep(AWAIT_POLL_S)


CHECKS = {
    "check_alarms": "alarms",
    "check_local_alarms": "local-alarms",
    "check_virtual_hosts": "virtual-hosts",
    "check_if_node_is_quorum_critical": "node-is-quorum-critical",
    "check_if_node_is_mirror_sync_critical": "node-is-mirror-sync-critical",
}


@verb(*CHECKS)
def health_check(client: Client, words: Words) -> None:
    words.take()
    client.get(f"/health/checks/{CHECKS[words.verb]}")
    announce(words, "ok")


@verb("check_port_listener")
def check_port_listener(client: Client, words: Words) -> None:
    (port,) = words.take("port")
    client.get(f"/health/checks/port-listener/{part(port)}")
    announce(words, "ok")


@verb("check_protocol_listener")
def check_protocol_listener(client: Client, words: Words) -> None:
    (protocol,) = words.take("protocol")
    client.get(f"/health/checks/protocol-listener/{part(protocol)}")
    announce(words, "ok")


@verb("check_certificate_expiration")
def check_certificate_expiration(client: Client, words: Words) -> None:
    words.take()
    client.get("/health/checks/certificate-expiration/1/months")
    announce(words, "ok")


@verb("listeners")
def listeners(client: Client, words: Words) -> None:
    words.take()
    print_rows(words, client.get("/overview")["listeners"], ("protocol", "ip_address", "port"))


@verb("alarms")
def alarms(client: Client, words: Words) -> None:
    words.take()
    node = client.get(node_path(client))
    raised = [kind for kind, field in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node[field]]
    click.echo(", ".join(raised) if raised else f"Node {node['name']} reported no alarms, local or clusterwide")


@verb("memory_breakdown")
def memory_breakdown(client: Client, words: Words) -> None:
    words.take()
    found = client.get(f"{node_path(client)}/memory")["memory"]
    plain = {name: value for name, value in found.items() if isinstance(value, int)}
    totals = {f"total.{name}": value for name, value in found["total"].items()}
    rows = [{"what": name, "bytes": value} for name, value in {**plain, **totals}.items()]
    print_rows(words, rows, ("what", "bytes"))


@verb("version", "server_version")
def version(client: Client, words: Words) -> None:
    words.take()
    click.echo(__version__ if words.verb == "version" else client.get("/overview")["leveret_version"])


@verb("set_cluster_name")
def set_cluster_name(client: Client, words: Words) -> None:
    (name,) = words.take("name")
    announce(words, f"Setting cluster name to {name} ...")
    client.put("/cluster-name", {"name": name})


@verb("enable_feature_flag")
def enable_feature_flag(client: Client, words: Words) -> None:
    (name,) = words.take("feature_flag")
    announce(words, f"Enabling feature flag {name} ...")
    if name != "all":
        client.put(f"/feature-flags/{part(name)}/enable", {"name": name})


@verb("report", "environment")
def report(client: Client, words: Words) -> None:
    words.take()
    parts = ("/overview", "/nodes", "/connections", "/channels", "/queues", "/exchanges", "/bindings", "/policies")
    for path in parts if words.verb == "report" else parts[:2]:
        click.echo(f"\n{path[1:]}")
        click.echo(json.dumps(client.get(path), indent=1, ensure_ascii=False))
