"""The verbs that list: which request, and which columns unless others are asked for."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import click

from leveret.cli.client import Client, part
from leveret.cli.ctl.erlang import term
from leveret.cli.ctl.printing import announce, formatter, print_rows
from leveret.cli.ctl.words import Misuse, Words
from leveret.cli.output import value_at

TIMEOUT_S = 60.0
# Columns that rabbitmqctl takes and that rows may lack: there is nothing to say, or nothing of the kind here.
PASSING = {
    "policy", "operator_policy", "owner_pid", "exclusive_consumer_pid", "exclusive_consumer_tag",
    "disk_reads", "disk_writes", "slave_pids", "synchronised_slave_pids", "head_message_timestamp",
    "tracing", "cluster_state", "consumer_utilisation", "consumer_capacity", "memory",
    "leader", "members", "online", "messages_ram", "ssl_protocol",
    "ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject", "peer_cert_issuer",
    "peer_cert_validity", "timeout", "client_properties", "transactional", "acks_uncommitted",
    "messages_uncommitted", "global_prefetch_count", "desc", "provided_by", "stability",
    "description", "tags",
}  # fmt: skip


@dataclass(frozen=True)
class Listing:
    # {vhost} and {0} stand for the virtual host and the first word.
    path: str
    columns: tuple[str, ...]
    says: str
    # Whether columns may be asked for by name.
    free: bool = False
    paged: bool = False
    words: int = 0


# Names that rabbitmqctl has for what the API calls otherwise.
ALIASES = {
    "pid": "name",
    "source_name": "source",
    "source_kind": "source_type",
    "destination_name": "destination",
    "destination_kind": "destination_type",
    "slave_pids": "slave_nodes",
    "connection": "connection_details.name",
    "effective_policy_definition": "effective_policy_definition",
    "conn_name": "name",
    "connection_state": "state",
    "heartbeat": "timeout",
    "connection_pid": "connection_details.name",
    "stream": "queue.name",
    "messages_published": "published",
    "messages_confirmed": "confirmed",
    "messages_errored": "errored",
    "messages_consumed": "consumed",
}

LISTINGS: dict[str, Listing] = {
    "list_queues": Listing("/queues/{vhost}", ("name", "messages"), "Listing queues for vhost {vhost} ...", True, True),
    "list_exchanges": Listing(
        "/exchanges/{vhost}", ("name", "type"), "Listing exchanges for vhost {vhost} ...", True, True
    ),
    "list_bindings": Listing(
        "/bindings/{vhost}",
        ("source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments"),
        "Listing bindings for vhost {vhost}...",
        True,
        True,
    ),
    "list_connections": Listing(
        "/connections", ("user", "peer_host", "peer_port", "state"), "Listing connections ...", True, True
    ),
    "list_channels": Listing(
        "/channels",
        ("pid", "user", "consumer_count", "messages_unacknowledged"),
        "Listing channels ...",
        True,
        True,
    ),
    "list_consumers": Listing(
        "/consumers/{vhost}",
        ("queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments"),
        "Listing consumers in vhost {vhost} ...",
        True,
    ),
    "list_users": Listing("/users", ("user", "tags"), "Listing users ..."),
    "list_vhosts": Listing("/vhosts", ("name",), "Listing vhosts ...", True),
    "list_permissions": Listing(
        "/vhosts/{vhost}/permissions",
        ("user", "configure", "write", "read"),
        'Listing permissions for vhost "{vhost}" ...',
    ),
    "list_user_permissions": Listing(
        "/users/{0}/permissions",
        ("vhost", "configure", "write", "read"),
        'Listing permissions for user "{0}" ...',
        words=1,
    ),
    "list_topic_permissions": Listing(
        "/vhosts/{vhost}/topic-permissions",
        ("user", "exchange", "write", "read"),
        'Listing topic permissions for vhost "{vhost}" ...',
    ),
    "list_user_topic_permissions": Listing(
        "/users/{0}/topic-permissions",
        ("vhost", "exchange", "write", "read"),
        'Listing topic permissions for user "{0}" ...',
        words=1,
    ),
    "list_policies": Listing(
        "/policies/{vhost}",
        ("vhost", "name", "pattern", "apply-to", "definition", "priority"),
        'Listing policies for vhost "{vhost}" ...',
    ),
    "list_operator_policies": Listing(
        "/operator-policies/{vhost}",
        ("vhost", "name", "pattern", "apply-to", "definition", "priority"),
        'Listing operator policy overrides for vhost "{vhost}" ...',
    ),
    "list_parameters": Listing(
        "/parameters", ("component", "name", "value"), 'Listing runtime parameters for vhost "{vhost}" ...'
    ),
    "list_global_parameters": Listing("/global-parameters", ("name", "value"), "Listing global runtime parameters ..."),
    "list_vhost_limits": Listing("/vhost-limits/{vhost}", ("vhost", "value"), 'Listing limits for vhost "{vhost}" ...'),
    "list_user_limits": Listing("/user-limits", ("user", "value"), "Listing limits for all users ..."),
    "list_feature_flags": Listing("/feature-flags", ("name", "state"), "Listing feature flags ...", True),
    "list_shovels": Listing("/shovels", ("name", "vhost", "state"), "Listing shovels ..."),
    "shovel_status": Listing("/shovels", ("name", "vhost", "state"), "Shovel status on this node"),
    "federation_status": Listing(
        "/federation-links", ("id", "upstream", "exchange", "queue", "vhost", "status"), "Listing federation links ..."
    ),
    "list_stream_connections": Listing(
        "/stream/connections", ("conn_name",), "Listing stream connections ...", True
    ),
    "list_stream_publishers": Listing(
        "/stream/publishers/{vhost}",
        (
            "connection_pid", "publisher_id", "stream", "reference",
            "messages_published", "messages_confirmed", "messages_errored",
        ),
        "Listing stream publishers ...",
        True,
    ),
    "list_stream_consumers": Listing(
        "/stream/consumers/{vhost}",
        (
            "connection_pid", "subscription_id", "stream", "messages_consumed",
            "offset", "offset_lag", "credits", "properties",
        ),
        "Listing stream consumers ...",
        True,
    ),
}  # fmt: skip


def run_listing(client: Client, words: Words, listing: Listing) -> None:
    columns = list(listing.columns)
    if listing.words:
        words.take(*["name"] * listing.words)
    elif words.rest and listing.free:
        columns = words.rest
    elif words.rest:
        words.take()
    names = {"vhost": part(words.vhost)}
    path = listing.path.format(*(part(word) for word in words.rest[: listing.words]), **names)
    if words.verb == "list_queues":
        announce(words, f"Timeout: {words.number('timeout', TIMEOUT_S)} seconds ...")
    announce(words, listing.says.format(*words.rest, vhost=words.vhost))
    rows = [_as_asked(row, columns) for row in (client.each(path) if listing.paged else client.get(path))]
    if words.verb == "list_stream_connections" and "subscriptions" in columns:
        held = Counter(row["connection_details"]["name"] for row in client.get("/stream/consumers"))
        rows = [{**row, "subscriptions": held[row["name"]]} for row in rows]
    if listing.free:
        _refuse_unknown(rows, columns)
    if words.verb == "list_parameters":
        rows = [row for row in rows if row["vhost"] == words.vhost]
    if words.verb == "list_vhost_limits" and formatter(words) == "table":
        # The one list there that is no table.
        for row in rows:
            click.echo(json.dumps(row["value"], separators=(",", ":")))
        return
    # Lists whose columns can be chosen show what the broker has in memory, others JSON as it was given.
    print_rows(words, rows, columns, term if listing.free else None)


def _refuse_unknown(rows: list[dict[str, Any]], columns: list[str]) -> None:
    """What no row has was misspelt, unless it is one of those that come and go."""
    lacking = [column for column in columns if rows and not any(_has(row, column) for row in rows)]
    names = [column for column in lacking if column not in PASSING]
    if names:
        raise Misuse(f"Info key(s) {', '.join(names)} are not supported")


def _has(row: dict[str, Any], column: str) -> bool:
    return column in row or value_at(row, column) is not None


def _as_asked(row: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """The row with the names that rabbitmqctl has for what is in it."""
    made = dict(row)
    if "source" in row and "destination_type" in row:
        made["source_type"] = "exchange"
    if "consumer_tag" in row:
        made["queue_name"] = row["queue"]["name"]
        made["channel_pid"] = row["channel_details"].get("name", "")
    if "password_hash" in row:
        made["user"] = row["name"]
    for column in columns:
        if column not in made and column in ALIASES:
            found: Any = made
            for name in ALIASES[column].split("."):
                found = found.get(name) if isinstance(found, dict) else None
            made[column] = found
    return made
