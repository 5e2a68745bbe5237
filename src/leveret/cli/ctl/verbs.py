"""The verbs that do something, or say how things are."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from leveret import __version__
from leveret.cli.asking import json_of
from leveret.cli.client import Client, part
from leveret.cli.ctl.printing import announce, formatter, print_rows
from leveret.cli.ctl.words import Misuse, Words
from leveret.cli.ends import Failed, Unreachable
from leveret.cli.status import node_path, summary

Verb = Callable[[Client, Words], None]
VERBS: dict[str, Verb] = {}
AWAIT_S = 300.0
AWAIT_POLL_S = 0.3


def verb(*names: str) -> Callable[[Verb], Verb]:
    def put(function: Verb) -> Verb:
        for name in names:
            VERBS[name] = function
        return function

    return put


def _password(given: str, words: Words) -> str:
    if given:
        return given
    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, err=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")


# ---- users and permissions


@verb("add_user")
def add_user(client: Client, words: Words) -> None:
    user, password = words.take("username", "password", optional=1)
    announce(words, f'Adding user "{user}" ...')
    if any(row["name"] == user for row in client.get("/users")):
        raise Failed(f'User "{user}" already exists')
    key = "password_hash" if words.has("pre-hashed-password") else "password"
    client.put(f"/users/{part(user)}", {key: _password(password, words), "tags": ""})


@verb("delete_user")
def delete_user(client: Client, words: Words) -> None:
    (user,) = words.take("username")
    announce(words, f'Deleting user "{user}" ...')
    client.delete(f"/users/{part(user)}")


@verb("change_password")
def change_password(client: Client, words: Words) -> None:
    user, password = words.take("username", "password", optional=1)
    announce(words, f'Changing password for user "{user}" ...')
    tags = client.get(f"/users/{part(user)}")["tags"]
    client.put(f"/users/{part(user)}", {"password": _password(password, words), "tags": tags})


@verb("clear_password")
def clear_password(client: Client, words: Words) -> None:
    (user,) = words.take("username")
    announce(words, f'Clearing password for user "{user}" ...')
    tags = client.get(f"/users/{part(user)}")["tags"]
    client.put(f"/users/{part(user)}", {"password_hash": "", "tags": tags})


@verb("authenticate_user")
def authenticate_user(client: Client, words: Words) -> None:
    user, password = words.take("username", "password", optional=1)
    announce(words, f'Authenticating user "{user}" ...')
    if not client.accepts(user, _password(password, words)):
        raise Failed(f'failed to authenticate user "{user}"')
    click.echo("Success")


@verb("set_user_tags")
def set_user_tags(client: Client, words: Words) -> None:
    if not words.rest:
        words.take("username", "tag", optional=1)
    user, *tags = words.rest
    announce(words, f'Setting tags for user "{user}" to [{", ".join(tags)}] ...')
    known = client.get(f"/users/{part(user)}")
    kept = {key: known[key] for key in ("password_hash", "hashing_algorithm")}
    client.put(f"/users/{part(user)}", {**kept, "tags": tags})


@verb("set_permissions")
def set_permissions(client: Client, words: Words) -> None:
    user, configure, write, read = words.take("username", "conf", "write", "read")
    announce(words, f'Setting permissions for user "{user}" in vhost "{words.vhost}" ...')
    client.put(f"/permissions/{part(words.vhost)}/{part(user)}", {"configure": configure, "write": write, "read": read})


@verb("clear_permissions")
def clear_permissions(client: Client, words: Words) -> None:
    (user,) = words.take("username")
    announce(words, f'Clearing permissions for user "{user}" in vhost "{words.vhost}" ...')
    client.delete(f"/permissions/{part(words.vhost)}/{part(user)}")


@verb("set_topic_permissions")
def set_topic_permissions(client: Client, words: Words) -> None:
    user, exchange, write, read = words.take("username", "exchange", "write", "read")
    announce(words, f'Setting topic permissions on "{exchange}" for user "{user}" in vhost "{words.vhost}" ...')
    body = {"exchange": exchange, "write": write, "read": read}
    client.put(f"/topic-permissions/{part(words.vhost)}/{part(user)}", body)


@verb("clear_topic_permissions")
def clear_topic_permissions(client: Client, words: Words) -> None:
    user, exchange = words.take("username", "exchange", optional=1)
    of = f' on "{exchange}"' if exchange else ""
    announce(words, f'Clearing topic permissions{of} for user "{user}" in vhost "{words.vhost}" ...')
    tail = f"/{part(exchange)}" if exchange else ""
    client.delete(f"/topic-permissions/{part(words.vhost)}/{part(user)}{tail}")


@verb("hash_password")
def hash_password(client: Client, words: Words) -> None:
    (password,) = words.take("password", optional=1)
    announce(words, "Will hash password")
    click.echo(client.post("/auth/hash_password", {"password": _password(password, words)})["password_hash"])


# ---- virtual hosts, limits, policies, parameters


@verb("add_vhost", "update_vhost_metadata")
def add_vhost(client: Client, words: Words) -> None:
    (vhost,) = words.take("vhost")
    announce(words, f'Adding vhost "{vhost}" ...')
    chosen = {
        name.replace("-", "_"): words.options[name]
        for name in ("description", "tags", "default-queue-type")
        if name in words.options
    }
    client.put(f"/vhosts/{part(vhost)}", chosen)


@verb("delete_vhost")
def delete_vhost(client: Client, words: Words) -> None:
    (vhost,) = words.take("vhost")
    announce(words, f'Deleting vhost "{vhost}" ...')
    client.delete(f"/vhosts/{part(vhost)}")


def _limits(client: Client, path: str, text: str) -> None:
    given = json_of(text, "the definition")
    if not isinstance(given, dict):
        raise Misuse('limits are written as {"max-connections": 100}')
    for limit, value in given.items():
        client.put(f"{path}/{part(limit)}", {"value": value})


@verb("set_vhost_limits")
def set_vhost_limits(client: Client, words: Words) -> None:
    (definition,) = words.take("definition")
    announce(words, f'Setting vhost limits to "{definition}" for vhost "{words.vhost}" ...')
    _limits(client, f"/vhost-limits/{part(words.vhost)}", definition)


@verb("clear_vhost_limits")
def clear_vhost_limits(client: Client, words: Words) -> None:
    words.take()
    announce(words, f'Clearing vhost "{words.vhost}" limits ...')
    for row in client.get(f"/vhost-limits/{part(words.vhost)}"):
        for limit in row["value"]:
            client.delete(f"/vhost-limits/{part(words.vhost)}/{part(limit)}")


@verb("set_user_limits")
def set_user_limits(client: Client, words: Words) -> None:
    user, definition = words.take("username", "definition")
    announce(words, f'Setting user limits to "{definition}" for user "{user}" ...')
    _limits(client, f"/user-limits/{part(user)}", definition)


@verb("clear_user_limits")
def clear_user_limits(client: Client, words: Words) -> None:
    user, limit = words.take("username", "limit")
    which = "all limits" if limit == "all" else f'"{limit}" limit'
    announce(words, f'Clearing {which} for user "{user}" ...')
    known = [name for row in client.get(f"/user-limits/{part(user)}") for name in row["value"]]
    for name in known if limit == "all" else [limit]:
        client.delete(f"/user-limits/{part(user)}/{part(name)}")


@verb("set_policy", "set_operator_policy")
def set_policy(client: Client, words: Words) -> None:
    name, pattern, definition = words.take("name", "pattern", "definition")
    kind = "policies" if words.verb == "set_policy" else "operator-policies"
    priority = int(words.number("priority", 0))
    what = f'"{name}" for pattern "{pattern}" to "{definition}" with priority "{priority}" for vhost "{words.vhost}"'
    announce(words, f"Setting {'policy' if kind == 'policies' else 'operator policy override'} {what} ...")
    body = {
        "pattern": pattern,
        "definition": json_of(definition, "the definition"),
        "priority": priority,
        "apply-to": words.options.get("apply-to", "all" if kind == "policies" else "queues"),
    }
    client.put(f"/{kind}/{part(words.vhost)}/{part(name)}", body)


@verb("clear_policy", "clear_operator_policy")
def clear_policy(client: Client, words: Words) -> None:
    (name,) = words.take("name")
    kind = "policies" if words.verb == "clear_policy" else "operator-policies"
    announce(words, f'Clearing policy "{name}" on vhost "{words.vhost}" ...')
    client.delete(f"/{kind}/{part(words.vhost)}/{part(name)}")


@verb("set_parameter")
def set_parameter(client: Client, words: Words) -> None:
    component, name, value = words.take("component_name", "name", "value")
    what = f'"{name}" for component "{component}" to "{value}" in vhost "{words.vhost}"'
    announce(words, f"Setting runtime parameter {what} ...")
    body = {"value": json_of(value, "the value")}
    client.put(f"/parameters/{part(component)}/{part(words.vhost)}/{part(name)}", body)


@verb("clear_parameter")
def clear_parameter(client: Client, words: Words) -> None:
    component, name = words.take("component_name", "name")
    announce(words, f'Clearing runtime parameter "{name}" for component "{component}" ...')
    client.delete(f"/parameters/{part(component)}/{part(words.vhost)}/{part(name)}")


@verb("set_global_parameter")
def set_global_parameter(client: Client, words: Words) -> None:
    name, value = words.take("name", "value")
    announce(words, f'Setting global runtime parameter "{name}" to "{value}" ...')
    client.put(f"/global-parameters/{part(name)}", {"name": name, "value": json_of(value, "the value")})


@verb("clear_global_parameter")
def clear_global_parameter(client: Client, words: Words) -> None:
    (name,) = words.take("name")
    announce(words, f'Clearing global runtime parameter "{name}" ...')
    client.delete(f"/global-parameters/{part(name)}")


# ---- queues and connections


@verb("delete_queue")
def delete_queue(client: Client, words: Words) -> None:
    (queue,) = words.take("queue_name")
    announce(words, f"Deleting queue '{queue}' on vhost '{words.vhost}' ...")
    conditions = {name: "true" for name in ("if-empty", "if-unused") if words.has(name)}
    client.delete(f"/queues/{part(words.vhost)}/{part(queue)}", conditions)


@verb("purge_queue")
def purge_queue(client: Client, words: Words) -> None:
    (queue,) = words.take("queue")
    announce(words, f"Purging queue '{queue}' in vhost '{words.vhost}' ...")
    client.delete(f"/queues/{part(words.vhost)}/{part(queue)}/contents")


@verb("close_connection")
def close_connection(client: Client, words: Words) -> None:
    name, reason = words.take("connection", "explanation", optional=1)
    announce(words, f"Closing connection {name}, reason: {reason} ...")
    client.delete(f"/connections/{part(name)}", headers={"X-Reason": reason} if reason else None)


@verb("close_all_connections")
def close_all_connections(client: Client, words: Words) -> None:
    (reason,) = words.take("explanation", optional=1)
    whole = words.has("global-flag") or "vhost" not in words.options
    announce(words, f"Closing all connections, reason: {reason} ...")
    limit = int(words.number("limit", 0)) or None
    path = "/connections" if whole else f"/vhosts/{part(words.vhost)}/connections"
    for row in client.get(path)[:limit]:
        client.delete(f"/connections/{part(row['name'])}", headers={"X-Reason": reason} if reason else None)


@verb("close_all_user_connections")
def close_all_user_connections(client: Client, words: Words) -> None:
    user, reason = words.take("username", "explanation", optional=1)
    announce(words, f"Closing connections of user {user}, reason: {reason} ...")
    client.delete(f"/connections/username/{part(user)}", headers={"X-Reason": reason} if reason else None)


# ---- definitions


@verb("export_definitions")
def export_definitions(client: Client, words: Words) -> None:
    (file,) = words.take("file", optional=1)
    text = json.dumps(client.get("/definitions"), ensure_ascii=False)
    if file in ("", "-"):
        click.echo(text)
        return
    announce(words, f'Exporting definitions in JSON to a file at "{file}" ...')
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)


@verb("import_definitions")
def import_definitions(client: Client, words: Words) -> None:
    (file,) = words.take("file", optional=1)
    announce(words, f'Importing definitions in JSON from a file at "{file}" ...')
    try:
        text = sys.stdin.read() if file in ("", "-") else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"cannot read {file}: {error}") from None
    client.post("/definitions", json_of(text, file or "what came in"))


# ---- how it is


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
    click.echo(__version__ if words.verb == "version" else client.get("/overview")["product_version"])


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
