"""Which upstreams a policy means: the parameters `federation-upstream` and `federation-upstream-set`, resolved.

The values were found valid when they were set. An upstream that a set or a policy names and that is not there is left
out, as in RabbitMQ: it counts as soon as it is set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from leveret.catalog.catalog import Catalog
from leveret.catalog.parameters import UPSTREAM, UPSTREAM_SET, stored_problem
from leveret.catalog.patterns import is_found
from leveret.links.shovel_spec import ON_CONFIRM

__all__ = ["POLICY_KEYS", "Upstream", "upstreams_of"]

POLICY_UPSTREAM, POLICY_SET, POLICY_PATTERN = POLICY_KEYS = (
    "federation-upstream",
    "federation-upstream-set",
    "federation-upstream-pattern",
)
ALL = "all"
PREFETCH, RECONNECT_DELAY_S, MAX_HOPS = 1000, 5, 1
CONSUMER_TAG = "federation-link-{}"


class Upstream(msgspec.Struct, frozen=True):
    name: str
    uris: tuple[str, ...]
    # Of the upstream; None for the same name as here.
    exchange: str | None
    queue: str | None
    consumer_tag: str
    prefetch: int
    reconnect_delay_s: float
    max_hops: int
    expires_ms: int | None
    message_ttl_ms: int | None
    trust_user_id: bool
    ack_mode: str
    # Whether queue and exchange at the upstream are deleted with the link.
    cleans_up: bool
    queue_type: str | None


def upstreams_of(catalog: Catalog, vhost: str, definition: Mapping[str, Any]) -> list[Upstream]:
    """Those that a policy's definition means, each once, by their names."""
    found: dict[str, Upstream] = {}
    for name, overrides in _named(catalog, vhost, definition):
        parameter = catalog.parameters.get((vhost, UPSTREAM, name))
        if parameter is not None and name not in found and not stored_problem(parameter):
            found[name] = _read(name, {**parameter.value, **overrides})
    return [found[name] for name in sorted(found)]


def _named(catalog: Catalog, vhost: str, definition: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    every = [name for of, component, name in catalog.parameters if of == vhost and component == UPSTREAM]
    if POLICY_UPSTREAM in definition:
        yield definition[POLICY_UPSTREAM], {}
    chosen = definition.get(POLICY_SET)
    if chosen == ALL:
        yield from ((name, {}) for name in every)
    elif chosen is not None:
        parameter = catalog.parameters.get((vhost, UPSTREAM_SET, chosen))
        for entry in (parameter.value or []) if parameter is not None else []:
            yield entry["upstream"], {key: value for key, value in entry.items() if key != "upstream"}
    pattern = definition.get(POLICY_PATTERN)
    if pattern is not None:
        yield from ((name, {}) for name in every if is_found(pattern, name))


def _read(name: str, value: dict[str, Any]) -> Upstream:
    uri = value["uri"]
    return Upstream(
        name=name,
        uris=(uri,) if isinstance(uri, str) else tuple(uri),
        exchange=value.get("exchange"),
        queue=value.get("queue"),
        consumer_tag=value.get("consumer-tag") or CONSUMER_TAG.format(name),
        prefetch=value.get("prefetch-count", PREFETCH),
        reconnect_delay_s=value.get("reconnect-delay", RECONNECT_DELAY_S),
        max_hops=value.get("max-hops", MAX_HOPS),
        expires_ms=value.get("expires"),
        message_ttl_ms=value.get("message-ttl"),
        trust_user_id=value.get("trust-user-id", False),
        ack_mode=value.get("ack-mode", ON_CONFIRM),
        cleans_up=value.get("resource-cleanup-mode", "default") != "never",
        queue_type=value.get("queue-type"),
    )
