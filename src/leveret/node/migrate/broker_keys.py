"""All other keys: limits, alarms, definitions, the log; and what only RabbitMQ has."""

from __future__ import annotations

from typing import Any

from leveret.node.migrate.findings import (
    Migration,
    Rule,
    direct,
    fine_if,
    frame_bytes,
    harmless,
    memory_bytes,
    missing,
    number,
    rule,
    seconds_of_ms,
    whole,
)
from leveret.node.migrate.rabbitmq_conf import Entry

FRAME_MOST = 16 * 1024 * 1024
CHANNELS_MOST = 65535
_LEVELS = {
    "debug": "debug",
    "info": "info",
    "notice": "info",
    "warning": "warning",
    "error": "error",
    "critical": "error",
    "alert": "error",
    "emergency": "error",
    "none": "error",
}
_LEVELS_IN_ORDER = ("debug", "info", "warning", "error")


def frame_max(text: str) -> int:
    """0 is no limit in RabbitMQ."""
    return frame_bytes(text) or FRAME_MOST


def channel_max(text: str) -> int:
    return whole(text) or CHANNELS_MOST


def unless_infinite(text: str) -> int:
    return 0 if text == "infinity" else whole(text)


def handshake_s(text: str) -> float:
    return 3600.0 if text == "infinity" else seconds_of_ms(text)


def minutes(text: str) -> float:
    return whole(text) * 60.0


def consumer_timeout(migration: Migration, entries: list[Entry]) -> None:
    for entry in entries:
        direct("limits.ack_timeout_ms", whole)(migration, [entry])
        if "limits.ack_timeout_ms" in migration.values:
            migration.set("limits.ack_timeout_action", "close", "as RabbitMQ does; requeue keeps the channel open")


def levels(migration: Migration, entries: list[Entry]) -> None:
    """The most that any output is to have: there is one log here."""
    known = [_LEVELS[entry.value] for entry in entries if entry.value in _LEVELS]
    for entry in entries:
        if entry.value not in _LEVELS:
            migration.refuse(entry, f"{entry.value!r} is no level")
        else:
            migration.take(entry, "log_level", min(known, key=_LEVELS_IN_ORDER.index))


def formatters(migration: Migration, entries: list[Entry]) -> None:
    for entry in entries:
        wanted: Any = {"json": "json", "plaintext": "text"}.get(entry.value)
        if wanted is None:
            migration.refuse(entry, f"the log is text or JSON, not {entry.value}")
        else:
            migration.take(entry, "log_format", wanted)


_STDERR = "the log goes to standard error, to be kept by systemd or the container's engine"
_ERLANG = "it is about Erlang"
_STORE = "the store is another one and tunes itself"
_ALONE = "a node is alone so far: no clusters, and no copies of queues on other nodes"

BROKER_KEYS: tuple[Rule, ...] = (
    rule("cluster_name", direct("cluster_name", str)),
    rule("heartbeat", direct("limits.heartbeat_s", whole)),
    rule("frame_max", direct("limits.frame_max", frame_max)),
    rule("channel_max", direct("limits.channel_max", channel_max)),
    rule("consumer_max_per_channel", direct("limits.consumers_per_channel_max", unless_infinite)),
    rule("connection_max", direct("limits.connections_max", unless_infinite)),
    rule("channel_max_per_node", direct("limits.channels_max", unless_infinite)),
    rule("max_message_size", direct("limits.body_bytes_max", whole)),
    rule("handshake_timeout", direct("limits.handshake_deadline_s", handshake_s)),
    rule("consumer_timeout", consumer_timeout),
    rule("initial_frame_max", harmless("before the login a frame has at most 4 KiB")),
    rule("vm_memory_high_watermark.relative", direct("alarms.memory_watermark", number)),
    rule("vm_memory_high_watermark.absolute", direct("alarms.memory_watermark", memory_bytes)),
    rule("disk_free_limit.absolute", direct("alarms.disk_free_bytes_min", memory_bytes)),
    rule("disk_free_limit.relative", missing("the limit is in bytes: set alarms.disk_free_bytes_min")),
    rule("total_memory_available_override_value", missing("set alarms.memory_watermark in bytes")),
    rule("vm_memory_*|memory_monitor_interval", harmless("memory is watched and paged out by other rules")),
    rule("(management.)?load_definitions|definitions.local.path", direct("definitions.path", str)),
    rule("definitions.import_backend", fine_if("local_filesystem", "definitions come from a file or a directory")),
    rule("definitions.hashing.*", harmless("whether a file has changed is found out in one way")),
    rule("definitions.*", missing("definitions come from a file or a directory, not by HTTPS")),
    rule("log.(console|file|default).level|log.level", levels),
    rule("log.(console|file).formatter", formatters),
    rule("log.(syslog|exchange)", fine_if("false", _STDERR)),
    rule("log.(syslog|exchange)*", missing(_STDERR)),
    rule("log.*.level", harmless("there is one level for everything, log_level")),
    rule("log.*", harmless(_STDERR)),
    rule("collect_statistics_interval", direct("management.sample_interval_s", seconds_of_ms)),
    rule("collect_statistics", harmless("counters cost nothing here")),
    rule("management.http.max_body_size", direct("management.body_bytes_max", whole)),
    rule("management.login_session_timeout", direct("management.session_s", minutes)),
    rule("management.path_prefix", missing("the API is at /api; have the proxy in front of it rewrite paths")),
    rule("management.cors.*", missing("pages of other origins cannot use the API")),
    rule("management.disable_basic_auth", fine_if("false", "the API always takes names and passwords")),
    rule("management.(enable_uaa|uaa_*|oauth_*)", missing("the browser logs in with a name and a password")),
    rule("management(_agent)?.*", harmless("statistics, headers and caches of the API are other ones")),
    rule("prometheus.return_per_object_metrics", fine_if("false", "scrape /metrics/per-object instead")),
    rule("prometheus.path", fine_if("/metrics", "metrics are at /metrics")),
    rule("prometheus.*", harmless("metrics are made in another way")),
    rule("stream.frame_max", direct("limits.stream_frame_max", frame_max)),
    rule("stream.heartbeat", harmless("limits.heartbeat_s counts")),
    rule("stream.(initial_credits|credits_required_for_unblocking)", harmless("credit is given by another rule")),
    rule("stream.advertised_host", direct("streams.advertised_host", str)),
    rule("stream.advertised_port", direct("streams.advertised_port", whole)),
    rule("stream.advertised_tls_host", direct("streams.advertised_tls_host", str)),
    rule("stream.advertised_tls_port", direct("streams.advertised_tls_port", whole)),
    rule("default_queue_type", fine_if("classic", "queues are classic unless declared or set for the virtual host")),
    rule("cluster_formation.peer_discovery_backend", fine_if("classic_config", _ALONE)),
    rule("cluster_formation.(classic_config|dns|aws|k8s|consul|etcd).*", missing(_ALONE)),
    rule("cluster_*|mirroring_*|queue_(master|leader)_locator|delegate_count|net_ticktime", harmless(_ALONE)),
    rule(
        "distribution.*|erlang.*|sysmon_handler.*|hipe_compile|background_gc_*|default_worker_pool_size",
        harmless(_ERLANG),
    ),
    rule(
        "raft.*|quorum_queue.*|mnesia_*|message_store_*|queue_index_*|classic_queue.*|vhost_restart_strategy",
        harmless(_STORE),
    ),
    rule("socket_writer.*|product.*|motd_file|deprecated_features.*", harmless("it has no meaning here")),
    rule("(web_)?mqtt.*", missing("MQTT is not spoken")),
    rule("(web_)?stomp.*", missing("STOMP is not spoken")),
    rule("amqp1_0.*", missing("AMQP 1.0 is not spoken")),
    rule("event_exchange.*", missing("there is no exchange that tells what happens; the log and the audit do")),
    rule("aws.*", harmless(_ALONE)),
    rule(
        "(shovel|federation)*",
        missing("links.static_shovels names a file of static shovels; the others are parameters"),
    ),
)
