"""Keys about ports, addresses and TLS. We have one port of each kind, with an address of its own, and one certificate
for everything; RabbitMQ has many of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from leveret.node.migrate.findings import Migration, Rule, direct, fine_if, harmless, missing, rule, whole
from leveret.node.migrate.rabbitmq_conf import Entry

# What RabbitMQ does without being told.
EVERY_ADDRESS = "::"
EVERY_ADDRESS_WHY = 'RabbitMQ listens on every address unless told otherwise; "0.0.0.0" where there is no IPv6'
_ADDRESS = re.compile(r"(?:\[?(?P<host>[0-9A-Fa-f.:]+?)\]?:)?(?P<port>[0-9]{1,5})")
_TLS_VERSIONS = {"tlsv1.2": "1.2", "tlsv1.3": "1.3"}


def listener(port_key: str) -> Callable[[Migration, list[Entry]], None]:
    """listeners.tcp.NAME and its like: a port, or an address and a port. The first counts."""

    def act(migration: Migration, entries: list[Entry]) -> None:
        for entry in entries:
            read = _ADDRESS.fullmatch(entry.value)
            if read is None:
                migration.refuse(entry, f"{entry.value!r} is neither a port nor an address and a port")
            elif port_key in migration.values:
                taken = migration.values[port_key]
                host_key = _host_key(port_key)
                if int(read["port"]) == taken and {read["host"], _host(migration, host_key)} <= {"127.0.0.1", "::1"}:
                    migration.ignore(entry, f"the same port on this machine, where {host_key} is")
                else:
                    migration.refuse(
                        entry, f"there is one {port_key}, which is {taken}; {host_key} may be every address"
                    )
            else:
                _place(migration, entry, _host_key(port_key), read["host"] or EVERY_ADDRESS)
                migration.take(entry, port_key, int(read["port"]))

    return act


def _host_key(port_key: str) -> str:
    return port_key.removesuffix("port") + "host"


def _host(migration: Migration, host_key: str) -> str:
    """Where something listens, as far as that is decided."""
    values = migration.values
    return str(values.get(host_key) or values.get("listen.host", EVERY_ADDRESS))


def _place(migration: Migration, entry: Entry, host_key: str, host: str) -> None:
    """Plain AMQP comes first, and its address is that of all who have none of their own."""
    if host_key == "listen.host" or host != _host(migration, host_key):
        migration.values[host_key] = host
        migration.origins[host_key] = [entry.key if host != EVERY_ADDRESS else EVERY_ADDRESS_WHY]


def no_listener(port_key: str) -> Callable[[Migration, list[Entry]], None]:
    """listeners.ssl = none and its like."""

    def act(migration: Migration, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.value != "none":
                migration.refuse(entry, f"{entry.value!r} is not none")
            else:
                migration.take(entry, port_key, "off")

    return act


def http_door(port_key: str, tls_key: str, plain: str, secure: str) -> Callable[[Migration, list[Entry]], None]:
    """The port of an HTTP server: one, with TLS or without. `plain` and `secure` are RabbitMQ's keys for it."""

    def act(migration: Migration, entries: list[Entry]) -> None:
        by_key = {entry.key: entry for entry in entries}
        safe = by_key.get(secure)
        for entry in entries:
            if entry.key not in (plain, secure):
                continue
            if entry is not safe and safe is not None:
                migration.refuse(entry, f"there is one {port_key}, which is the one with TLS ({secure})")
                continue
            direct(port_key, whole)(migration, [entry])
            if entry is safe:
                migration.values[tls_key] = True
                migration.origins[tls_key] = [secure]

    return act


def http_address(host_key: str) -> Callable[[Migration, list[Entry]], None]:
    def act(migration: Migration, entries: list[Entry]) -> None:
        for entry in entries:
            host = _host(migration, host_key)
            if entry.value == host or (entry.value == "0.0.0.0" and host == EVERY_ADDRESS):
                migration.ignore(entry, f"it listens on {host} anyway")
            elif host_key in migration.values:
                migration.refuse(entry, f"there is one {host_key}, which is {host}")
            else:
                migration.take(entry, host_key, entry.value)

    return act


def old_management_listener(migration: Migration, entries: list[Entry]) -> None:
    """management.listener.port and .ssl, as before 3.7.9."""
    by_key = {entry.key: entry for entry in entries}
    secure = by_key.get("management.listener.ssl")
    for entry in entries:
        if entry is secure:
            migration.take(entry, "listen.management_tls", entry.value == "true")
        else:
            direct("listen.management_port", whole)(migration, [entry])


# ---- TLS

_FILES = {"certfile": "tls.certificate", "keyfile": "tls.key", "cacertfile": "tls.ca"}


def tls_files(migration: Migration, entries: list[Entry]) -> None:
    """Files and the passphrase: those of ssl_options first; another server's must be the same."""
    for entry in entries:
        key = "tls.key_password" if entry.parts[-1] == "password" else _FILES[entry.parts[-1]]
        before = migration.values.get(key)
        given = before if before is None or isinstance(before, str) else before.reveal()
        if given is None:
            direct(key, str)(migration, [entry])
        elif given == entry.value:
            migration.ignore(entry, f"the same as {key}")
        else:
            migration.refuse(
                entry, f"there is one {key}, from {', '.join(migration.origins[key])}, and this is another"
            )


def tls_verify(migration: Migration, entries: list[Entry]) -> None:
    """Two keys of RabbitMQ are one of ours."""
    by_name = {entry.parts[-1]: entry for entry in entries}
    asked = by_name.get("verify")
    forced = by_name.get("fail_if_no_peer_cert")
    peers = asked is not None and asked.value == "verify_peer"
    wanted = "none" if not peers else "required" if forced is not None and forced.value == "true" else "optional"
    for entry in entries:
        if entry is asked and entry.value not in ("verify_peer", "verify_none"):
            migration.refuse(entry, f"{entry.value!r} is neither verify_peer nor verify_none")
        elif (chosen := _verified(migration, entry, wanted)) != wanted:
            migration.refuse(entry, f"there is one tls.verify, which is {chosen} for AMQP")
        else:
            migration.take(entry, "tls.verify", wanted)


def _verified(migration: Migration, entry: Entry, wanted: str) -> str:
    """What is decided already: an HTTP server's wish is not to shut clients of AMQP out."""
    speaks_amqp = "listen.tls_port" in migration.values and entry.parts[0] != "ssl_options"
    return str(migration.values.get("tls.verify", "none" if speaks_amqp else wanted))


def tls_versions(migration: Migration, entries: list[Entry]) -> None:
    known = [entry for entry in entries if entry.value in _TLS_VERSIONS]
    for entry in entries:
        if entry not in known:
            migration.refuse(entry, f"{entry.value} is not spoken: TLS 1.2 is the oldest")
        else:
            migration.take(entry, "tls.version_min", min(_TLS_VERSIONS[each.value] for each in known))


def tls_ciphers(migration: Migration, entries: list[Entry]) -> None:
    named = [entry for entry in entries if not entry.value.startswith("TLS_")]
    for entry in entries:
        if entry in named:
            migration.take(entry, "tls.ciphers", ":".join(each.value for each in named))
        else:
            migration.ignore(entry, "cipher suites of TLS 1.3 are OpenSSL's choice")


_TLS_HARMLESS = "|".join(
    ("honor_*", "secure_renegotiate", "client_renegotiation", "reuse_sessions?", "depth", "dh", "dhfile", "log_*")
)
_TLS_HARMLESS_WHY = "OpenSSL's defaults are as safe: our order of ciphers, no renegotiation, whole chains"
_TLS_SERVERS = "(ssl_options|management.ssl|management.listener.ssl_opts|prometheus.ssl)"
_HTTP_TUNING = "(management|prometheus).(tcp|ssl|listener.server)."

DOORS: tuple[Rule, ...] = (
    rule("listeners.tcp", no_listener("listen.port")),
    rule("listeners.tcp.*", listener("listen.port")),
    rule("listeners.ssl", no_listener("listen.tls_port")),
    rule("listeners.ssl.*", listener("listen.tls_port")),
    rule("stream.listeners.tcp", no_listener("listen.stream_port")),
    rule("stream.listeners.tcp.*", listener("listen.stream_port")),
    rule("stream.listeners.ssl", no_listener("listen.stream_tls_port")),
    rule("stream.listeners.ssl.*", listener("listen.stream_tls_port")),
    rule(
        "management.(tcp|ssl).port",
        http_door("listen.management_port", "listen.management_tls", "management.tcp.port", "management.ssl.port"),
    ),
    rule("management.listener.(port|ssl)", old_management_listener),
    rule(
        "prometheus.(tcp|ssl).port",
        http_door("listen.metrics_port", "listen.metrics_tls", "prometheus.tcp.port", "prometheus.ssl.port"),
    ),
    rule("management.(tcp|ssl|listener).ip", http_address("listen.management_host")),
    rule("prometheus.(tcp|ssl|listener).ip", http_address("listen.metrics_host")),
    rule("ssl_options.(certfile|keyfile|cacertfile|password)", tls_files),
    rule("ssl_options.(verify|fail_if_no_peer_cert)", tls_verify),
    rule(f"{_TLS_SERVERS}.(certfile|keyfile|cacertfile|password)", tls_files),
    rule("management.ssl.(verify|fail_if_no_peer_cert)", tls_verify),
    rule("management.listener.ssl_opts.(verify|fail_if_no_peer_cert)", tls_verify),
    rule("prometheus.ssl.(verify|fail_if_no_peer_cert)", tls_verify),
    rule(f"{_TLS_SERVERS}.versions.*", tls_versions),
    rule(f"{_TLS_SERVERS}.ciphers.*", tls_ciphers),
    rule(f"{_TLS_SERVERS}.crl_check", missing("lists of revoked certificates are not looked at: use short-lived ones")),
    rule(f"{_TLS_SERVERS}.({_TLS_HARMLESS})", harmless(_TLS_HARMLESS_WHY)),
    rule(
        f"{_TLS_SERVERS}.*", missing("certificates and keys come from files: set tls.certificate, tls.key and tls.ca")
    ),
    rule("ssl_handshake_timeout", harmless("a TLS handshake has 5 seconds here")),
    rule("ssl_allow_poodle_attack", harmless("the versions that it is about are not spoken")),
    rule("ssl_options", harmless("none is what it takes")),
    rule(f"{_HTTP_TUNING}*", harmless("timeouts and compression of HTTP have good values here")),
    rule("(tcp|stream.tcp)_listen_options*", harmless("sockets are tuned by the broker")),
    rule("(stream.)?num_acceptors.*", harmless("there are no acceptors to count here")),
    rule(
        "proxy_protocol",
        fine_if(
            "false", "set listen.proxy_networks to the networks of the proxies: headers of others are not believed"
        ),
    ),
    rule("reverse_dns_lookups", harmless("clients are shown by their addresses")),
)
