"""What parameters of components may say: shovels, federation, schedules of reprocessing. The texts are RabbitMQ's where
it has them.

Nothing is run here; whoever acts on a parameter finds it valid. Passwords inside addresses are masked wherever a value
is shown to somebody who may not see them, and in every text of a refusal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from leveret.catalog.arguments import is_integer
from leveret.catalog.delays import parse_duration_ms, parse_interval_ms
from leveret.catalog.json_tables import is_text, kept_bytes
from leveret.catalog.policy_keys import shown_json
from leveret.catalog.records import Parameter
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.errors import InvalidPolicy

SHOVEL, UPSTREAM, UPSTREAM_SET = "shovel", "federation-upstream", "federation-upstream-set"
VHOST_LIMITS, POLICY, OPERATOR_POLICY = "vhost-limits", "policy", "operator_policy"
# When dead letters of a queue are retried and given up; the parameter has the queue's name.
REPROCESS_SCHEDULE = "reprocess-schedule"
SCHEDULE_EVERY, SCHEDULE_ARCHIVE_AFTER = "every", "archive-after"
# The one name under which limits of a virtual host are kept.
LIMITS = "limits"
VHOST_LIMIT_NAMES = ("max-connections", "max-queues")
USER_LIMIT_NAMES = ("max-connections", "max-channels")
MASK = "****"
# Where links have their URIs, and what one begins with whose secret is encrypted (broker/sealing.py).
URI_KEYS = ("src-uri", "dest-uri", "uri")
SEALED_PREFIX = "sealed:1:"
# What the query of a link's URI may say, as in RabbitMQ.
URI_NUMBERS = ("heartbeat", "connection_timeout", "channel_max")
URI_QUERY_KEYS = frozenset(
    (
        *URI_NUMBERS,
        "auth_mechanism",
        "cacertfile",
        "certfile",
        "keyfile",
        "password",
        "verify",
        "server_name_indication",
    )
)
PREFETCH_MAX = 65535
NAME_CHARACTERS_MAX = 1024
VALUE_BYTES_MAX = 64 * 1024
_INT64_MAX = 2**63 - 1
# user:password@ behind the scheme, up to the last @, for nobody encodes a slash or a space in a password that should
# be; and a query may hold a passphrase as well.
_CREDENTIALS = re.compile(r"(//[^/@:\s]*):.*@", re.DOTALL)
_QUERY_SECRET = re.compile(r"([?&](?:password|passphrase|secret)=)[^&#\s]*", re.IGNORECASE)

Check = Callable[[str, Any], str | None]


def masked(value: Any) -> Any:
    """The same without passwords."""
    if isinstance(value, str):
        return _QUERY_SECRET.sub(rf"\1{MASK}", _CREDENTIALS.sub(rf"\1:{MASK}@", value))
    if isinstance(value, dict):
        return {key: MASK if _is_secret(key) else masked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    return value


def _is_secret(key: str) -> bool:
    return any(word in key.lower() for word in ("password", "passphrase", "secret", "token"))


# ---- checks of one value


def _shown(value: Any) -> str:
    return shown_json(masked(value))


def _number(name: str, value: Any) -> str | None:
    if is_integer(value) and 0 <= value <= _INT64_MAX:
        return None
    return f"{name} should be a number, actually was {_shown(value)}"


def _text(name: str, value: Any) -> str | None:
    return None if isinstance(value, str) else f"{name} should be binary, actually was {_shown(value)}"


def _boolean(name: str, value: Any) -> str | None:
    return None if isinstance(value, bool) else f"{name} should be boolean, actually was {_shown(value)}"


def _table(name: str, value: Any) -> str | None:
    return None if isinstance(value, dict) or value == [] else f"{name} should be a list, actually was {_shown(value)}"


def _one_of(*choices: str) -> Check:
    wanted = ", ".join(choices)

    def check(name: str, value: Any) -> str | None:
        return None if value in choices else f"{name} should be one of {wanted}, actually was {_shown(value)}"

    return check


def _delete_after(name: str, value: Any) -> str | None:
    if value in ("never", "queue-length"):
        return None
    if is_integer(value) and 0 <= value <= _INT64_MAX:
        return None
    return f'{name} should be a number greater than or equal to 0, "never" or "queue-length", got {_shown(value)}'


def _prefetch(name: str, value: Any) -> str | None:
    problem = _number(name, value)
    if problem is None and value > PREFETCH_MAX:
        return f"{name} should be at most {PREFETCH_MAX}, actually was {value}"
    return problem


def _name(name: str, value: Any) -> str | None:
    problem = _text(name, value)
    if problem is None and len(value.encode("utf-8", "surrogatepass")) > NAME_OCTETS_MAX:
        return f"{name} should have at most {NAME_OCTETS_MAX} octets"
    return problem


def _protocol(name: str, value: Any) -> str | None:
    if value == "amqp10":
        return f"{name} is amqp10, which this broker does not speak; use amqp091"
    return _one_of("amqp091", "local")(name, value)


_PROPERTY_CHECKS: dict[str, Check] = {
    "content_type": _name,
    "content_encoding": _name,
    "headers": _table,
    "delivery_mode": _number,
    "priority": _number,
    "correlation_id": _name,
    "reply_to": _name,
    "expiration": _name,
    "message_id": _name,
    "timestamp": _number,
    "type": _name,
    "user_id": _name,
    "app_id": _name,
    "cluster_id": _name,
}


def _properties(name: str, value: Any) -> str | None:
    """Properties of messages by the names that AMQP has for them."""
    problem = _table(name, value)
    if problem is not None or not value:
        return problem
    for key, inner in value.items():
        check = _PROPERTY_CHECKS.get(key)
        problem = f'unknown property "{key}" in {name}' if check is None else check(key, inner)
        if problem is None and key in ("delivery_mode", "priority") and inner > 255:
            problem = f"{key} should be at most 255, actually was {inner}"
        if problem is not None:
            return problem
    return None


def _uris(name: str, value: Any) -> str | None:
    given = value if isinstance(value, list) else [value]
    if not given:
        return f"{name} should be a URI or a list of them, and the list is empty"
    for one in given:
        if not isinstance(one, str):
            return f"{name} should be a URI or a list of them, actually was {_shown(value)}"
        reason = _uri_problem(one)
        if reason is not None:
            return f'"{masked(one)}" not a valid URI: {reason}'
    return None


def _uri_problem(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return "it cannot be read"
    if "://" not in uri:
        return "no_scheme"
    if parts.scheme not in ("amqp", "amqps"):
        return f'unexpected_uri_scheme "{parts.scheme}"'
    if port == 0:
        return "port 0"
    return _query_problem(parts.query)


def _query_problem(query: str) -> str | None:
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in URI_QUERY_KEYS:
            return f'unknown query key "{key}"; there are {", ".join(sorted(URI_QUERY_KEYS))}'
        if key in URI_NUMBERS and not (value.isascii() and value.isdigit() and len(value) <= 9):
            return f"{key} should be a number"
        if key == "verify" and value not in ("verify_peer", "verify_none"):
            return "verify should be verify_peer or verify_none"
        if key == "auth_mechanism" and value.lower() not in ("plain", "external"):
            return "auth_mechanism should be plain or external"
    return None


def without_login(uri: str) -> str:
    """The URI as status shows it: neither user nor password, and no query."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def direct_vhost(uri: str) -> str | None:
    """The virtual host that a URI without a host names: this broker's own, "" for the one that the parameter belongs
    to. None if the URI goes elsewhere."""
    parts = urlsplit(uri)
    if parts.hostname:
        return None
    return unquote(parts.path[1:]) if len(parts.path) > 1 else ""


# ---- components

_OF_SHOVELS: dict[str, Check] = {
    "src-protocol": _protocol,
    "dest-protocol": _protocol,
    "src-uri": _uris,
    "dest-uri": _uris,
    "src-queue": _name,
    "src-queue-args": _table,
    "src-consumer-args": _table,
    "src-exchange": _name,
    "src-exchange-key": _name,
    "src-prefetch-count": _prefetch,
    "src-delete-after": _delete_after,
    "src-predeclared": _boolean,
    "dest-queue": _name,
    "dest-queue-args": _table,
    "dest-exchange": _name,
    "dest-exchange-key": _name,
    "dest-predeclared": _boolean,
    "dest-publish-properties": _properties,
    "dest-add-forward-headers": _boolean,
    "dest-add-timestamp-header": _boolean,
    "publish-properties": _properties,
    "add-forward-headers": _boolean,
    "add-timestamp-header": _boolean,
    "prefetch-count": _prefetch,
    "reconnect-delay": _number,
    "ack-mode": _one_of("no-ack", "on-publish", "on-confirm"),
    "delete-after": _delete_after,
}
_OF_LINKS: dict[str, Check] = {
    "exchange": _text,
    "queue": _text,
    "consumer-tag": _text,
    "prefetch-count": _number,
    "reconnect-delay": _number,
    "max-hops": _number,
    "expires": _number,
    "message-ttl": _number,
    "trust-user-id": _boolean,
    "ack-mode": _one_of("no-ack", "on-publish", "on-confirm"),
    "resource-cleanup-mode": _one_of("default", "never"),
    "channel-use-mode": _one_of("multiple", "single"),
    "bind-nowait": _boolean,
    "ha-policy": _text,
    "queue-type": _one_of("classic", "quorum"),
}


def _duration(name: str, value: Any) -> str | None:
    try:
        (parse_interval_ms if name == SCHEDULE_EVERY else parse_duration_ms)(value, name)
    except InvalidPolicy as error:
        return str(error)
    return None


_OF_SCHEDULES: dict[str, Check] = {SCHEDULE_EVERY: _duration, SCHEDULE_ARCHIVE_AFTER: _duration}
_OF_UPSTREAMS: dict[str, Check] = {"uri": _uris, **_OF_LINKS}
_OF_SETS: dict[str, Check] = {"upstream": _text, **_OF_LINKS}


def parameter_problems(component: str, name: str, value: Any) -> list[str]:
    """What keeps a parameter from being taken; nothing if it is good."""
    problem = name_or_value_problem(name, value)
    if problem is not None:
        return [problem]
    if component == SHOVEL:
        return _shovel_problems(name, value)
    if component == UPSTREAM:
        return _table_problems(name, value, _OF_UPSTREAMS, ("uri",))
    if component == UPSTREAM_SET:
        return _set_problems(name, value)
    if component == REPROCESS_SCHEDULE:
        return _table_problems(name, value, _OF_SCHEDULES, ())
    if component == VHOST_LIMITS:
        if name != LIMITS:
            return [f"limits of a virtual host have the name '{LIMITS}', not '{name}'"]
        return limit_problems(value, VHOST_LIMIT_NAMES, LIMITS)
    return [f"component {component} not found"]


def stored_problem(parameter: Parameter) -> str:
    """Why a link's parameter that is in the catalog cannot be run, empty if it can: an older version may have taken
    what this one does not, and a secret may have lost its key."""
    if any(isinstance(uri, str) and uri.startswith(SEALED_PREFIX) for uri in uris_of(parameter.value)):
        return "its URI cannot be decrypted: the key is missing or another one; set it anew"
    return "; ".join(parameter_problems(parameter.component, parameter.name, parameter.value))


def name_or_value_problem(name: str, value: Any) -> str | None:
    """What any parameter, of the broker too, is refused for."""
    if not is_text(name) or not 0 < len(name) <= NAME_CHARACTERS_MAX:
        return f"a parameter's name has 1 to {NAME_CHARACTERS_MAX} characters of valid text"
    try:
        size = kept_bytes(value)
    except ValueError as error:
        return f"a parameter's value cannot be kept: {error}"
    return None if size <= VALUE_BYTES_MAX else f"a parameter's value has at most {VALUE_BYTES_MAX} bytes"


def limit_problems(value: Any, names: tuple[str, ...], what: str) -> list[str]:
    """Limits of a virtual host or of a user; -1 and less is no limit."""
    if not isinstance(value, dict):
        return [f"{what} should be an object, actually was {_shown(value)}"]
    problems = [
        f"{name} should be a number, actually was {_shown(limit)}"
        for name, limit in value.items()
        if name in names and not (is_integer(limit) and abs(limit) <= _INT64_MAX)
    ]
    return problems + _unknown_problems(value, names, what)


def _shovel_problems(name: str, value: Any) -> list[str]:
    problems = _table_problems(name, value, _OF_SHOVELS, ("src-uri", "dest-uri"))
    if not isinstance(value, dict):
        return problems
    if "src-queue" in value and "src-exchange" in value:
        ends = ["Cannot specify 'src-exchange' and 'src-queue'"]
    elif "src-queue" not in value and "src-exchange" not in value:
        ends = ["Must specify 'src-exchange' or 'src-queue'"]
    else:
        ends = []
    if "dest-queue" in value and "dest-exchange" in value:
        ends.append("Cannot specify 'dest-exchange' and 'dest-queue'")
    if not problems:
        ends += [
            f"{side}-protocol is local, but {side}-uri names a host"
            for side in ("src", "dest")
            if value.get(f"{side}-protocol") == "local" and None in map(direct_vhost, _listed(value[f"{side}-uri"]))
        ]
    return ends + problems


def _listed(uris: str | list[str]) -> list[str]:
    return [uris] if isinstance(uris, str) else uris


def _set_problems(name: str, value: Any) -> list[str]:
    # RabbitMQ writes a list without items as {} in places.
    if value == {}:
        return []
    if not isinstance(value, list):
        return [f"{name} should be a list, actually was {_shown(value)}"]
    return [problem for one in value for problem in _table_problems(name, one, _OF_SETS, ("upstream",))]


def _table_problems(name: str, value: Any, checks: dict[str, Check], needed: tuple[str, ...]) -> list[str]:
    if not isinstance(value, dict):
        return [f"{name} should be an object, actually was {_shown(value)}"]
    problems = [f'Key "{key}" not found in {name}' for key in needed if key not in value]
    for key, inner in value.items():
        reason = checks[key](key, inner) if key in checks else None
        if reason is not None:
            problems.append(reason)
    return problems + _unknown_problems(value, checks, name)


def _unknown_problems(value: dict[str, Any], known: Any, what: str) -> list[str]:
    unknown = [key for key in value if key not in known]
    if not unknown:
        return []
    shown = ",".join(f"{{{_shown(key)},{_shown(masked({key: value[key]})[key])}}}" for key in unknown)
    return [f"Unrecognised terms [{shown}] in {what}"]


def uris_of(value: Any) -> list[str]:
    """Every URI that a valid shovel or upstream names."""
    found: list[str] = []
    for key in URI_KEYS:
        given = value.get(key, []) if isinstance(value, dict) else []
        found += given if isinstance(given, list) else [given]
    return found
