"""What a policy may say: its keys, the values they take, and whether a policy as a whole can be taken.

The rules and texts are RabbitMQ's where it has them. Durations go up to a hundred years, so that a deadline reckoned
in nanoseconds still fits 64 bits; RabbitMQ sets no end to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from leveret.catalog.arguments import is_integer
from leveret.catalog.delays import parse_delays, parse_duration_ms, parse_interval_ms
from leveret.catalog.patterns import compile_pattern
from leveret.catalog.records import Arguments, Policy
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.core.codec.wording import shown_octets
from leveret.errors import InvalidPolicy

INTEGER_MAX = 2**63 - 1
DURATION_MS_MAX = 100 * 366 * 24 * 60 * 60 * 1000
SEGMENT_BYTES_MAX = 3_000_000_000
NAME_CHARACTERS_MAX = 1024
# Names of queues and exchanges, and routing keys.

QUEUES, EXCHANGES = "queues", "exchanges"
MESSAGE_ID = "message-id"
# What it takes: ids that the broker makes, or none but those of publishers.
MESSAGE_IDS = ("uuid", "none")
# Which type of queue each of these means; None is any.
APPLY_TO_QUEUES: dict[str, str | None] = {
    "all": None,
    QUEUES: None,
    "classic_queues": "classic",
    "quorum_queues": "quorum",
    "streams": "stream",
}
APPLY_TO = (*APPLY_TO_QUEUES, EXCHANGES)

# Read by the schedule of reprocessing alone.
REPROCESS_EVERY, ARCHIVE_AFTER = "reprocess-every", "archive-after"

# The keys that an exchange has seen are kept under its number, which it gets when it is declared with the argument.
AS_ARGUMENT = "an exchange takes the argument x-{} when it is declared"

# How a declared argument and a policy's value become one.
ARGUMENT, SMALLEST = "argument", "smallest"

_AGE = re.compile(r"([0-9]{1,30})([YMDhms])")
_AGE_UNITS_S = {"Y": 365 * 86400, "M": 30 * 86400, "D": 86400, "h": 3600, "m": 60, "s": 1}


class Key(msgspec.Struct, frozen=True):
    # Whether a value can be used; may raise InvalidPolicy to say more than `refusal` does.
    check: Callable[[Any], bool]
    # The text for a value that cannot, with {} for the value.
    refusal: str
    rule: str = ARGUMENT
    # Whether an operator's policy may have it. Every such key is a limit, of which the smallest counts.
    operator: bool = False
    # "queues" or "exchanges" if it would be without effect for the others, so that a policy for these alone is refused.
    # Empty for RabbitMQ's own keys, which it takes with any apply-to.
    only: str = ""
    # What the others can do instead, for such a refusal.
    instead: str = ""


def _is_count(value: Any) -> bool:
    return is_integer(value) and 0 <= value <= INTEGER_MAX


def _is_duration(value: Any) -> bool:
    return is_integer(value) and 0 <= value <= DURATION_MS_MAX


def _is_positive_duration(value: Any) -> bool:
    return _is_duration(value) and value > 0


def _is_short_text(value: Any) -> bool:
    return _is_text(value) and len(value.encode()) <= NAME_OCTETS_MAX


def _is_queue_name(value: Any) -> bool:
    """Of a queue that the broker may make."""
    return _is_short_text(value) and value != "" and not value.startswith("amq.")


def _is_name(value: Any) -> bool:
    """Of a parameter."""
    return _is_text(value) and 0 < len(value) <= NAME_CHARACTERS_MAX


def _is_pattern(value: Any) -> bool:
    if not _is_text(value):
        return False
    try:
        compile_pattern(value)
    except ValueError:
        return False
    return True


def _is_delays(value: Any) -> bool:
    return len(parse_delays(value)) > 0


def _is_one_of(*choices: object) -> Callable[[Any], bool]:
    # By type too: 1.0 and True are no queue version.
    return lambda value: any(type(value) is type(choice) and value == choice for choice in choices)


def age_s(value: Any) -> int | None:
    """The seconds of a text such as 7D, or None if it is none."""
    read = _AGE.fullmatch(value) if isinstance(value, str) else None
    return None if read is None else int(read[1]) * _AGE_UNITS_S[read[2]]


def _limit(check: Callable[[Any], bool], refusal: str) -> Key:
    return Key(check, refusal, SMALLEST, operator=True)


KEYS: dict[str, Key] = {
    "message-ttl": _limit(_is_duration, "{} is not a valid message TTL"),
    "expires": _limit(_is_positive_duration, "{} is not a valid queue expiry"),
    "max-length": _limit(_is_count, "{} is not a valid maximum length"),
    "max-length-bytes": _limit(_is_count, "{} is not a valid maximum length in bytes"),
    "max-in-memory-length": _limit(_is_count, "{} is not a valid maximum memory in bytes"),
    "max-in-memory-bytes": _limit(_is_count, "{} is not a valid maximum memory in bytes"),
    "delivery-limit": _limit(_is_count, "{} is not a valid delivery limit"),
    # RabbitMQ has it from 3.12 on.
    "consumer-timeout": _limit(_is_positive_duration, "{} is not a valid consumer timeout"),
    "overflow": Key(
        _is_one_of("drop-head", "reject-publish", "reject-publish-dlx"), "{} is not a valid overflow value"
    ),
    "dead-letter-exchange": Key(_is_short_text, "{} is not a valid dead letter exchange name"),
    "dead-letter-routing-key": Key(_is_short_text, "{} is not a valid dead letter routing key"),
    "dead-letter-strategy": Key(_is_one_of("at-most-once", "at-least-once"), "{} is not a valid dead letter strategy"),
    "queue-mode": Key(_is_one_of("default", "lazy"), "{} is not a valid queue-mode value"),
    "queue-version": Key(_is_one_of(1, 2), "{} is not a valid queue-version value"),
    "queue-leader-locator": Key(
        _is_one_of("client-local", "balanced", "random", "least-leaders"),
        "{} is not a valid queue leader locator value",
    ),
    "queue-master-locator": Key(
        _is_one_of("client-local", "random", "min-masters"), "{} invalid queue-master-locator value"
    ),
    "initial-cluster-size": Key(_is_count, "{} is not a valid cluster size"),
    "max-age": Key(lambda value: age_s(value) is not None, "{} is not a valid max age"),
    "stream-max-segment-size-bytes": Key(
        lambda value: _is_count(value) and value <= SEGMENT_BYTES_MAX, "{} is not a valid segment size", SMALLEST
    ),
    "alternate-exchange": Key(_is_short_text, "{} is not a valid alternate exchange name"),
    # Ours alone.
    "retry-delays": Key(_is_delays, "{} is not a list of delays"),
    "message-deduplication": Key(_is_one_of(True, False), "{} is not true or false", only=QUEUES, instead=AS_ARGUMENT),
    "cache-size": Key(
        lambda value: _is_count(value) and value > 0, "{} is not a number of keys", only=QUEUES, instead=AS_ARGUMENT
    ),
    "cache-ttl": Key(
        _is_positive_duration, "{} is not a valid time to remember keys", only=QUEUES, instead=AS_ARGUMENT
    ),
    MESSAGE_ID: Key(_is_one_of(*MESSAGE_IDS), "{} is not a valid message-id: it is uuid or none", only=EXCHANGES),
    "parking-lot": Key(_is_queue_name, "{} is not a valid parking lot: it takes the name of a queue"),
    # How often dead letters of the queue are retried, and when they are given up.
    REPROCESS_EVERY: Key(lambda value: parse_interval_ms(value, REPROCESS_EVERY) >= 0, ""),
    ARCHIVE_AFTER: Key(lambda value: parse_duration_ms(value, ARCHIVE_AFTER) >= 0, ""),
    # Which brokers an exchange or a queue receives from; see leveret.links.federation.
    "federation-upstream": Key(_is_name, "{} is not a valid federation upstream"),
    "federation-upstream-set": Key(_is_name, "{} is not a valid federation upstream set"),
    "federation-upstream-pattern": Key(_is_pattern, "{} is not a valid federation upstream pattern"),
    # Mirrored queues, which are not there: refused but in imports, see `mirroring_refusal`.
    "ha-mode": Key(_is_one_of("all", "exactly", "nodes"), "{} is not a valid ha-mode value"),
    # What it takes depends on ha-mode.
    "ha-params": Key(lambda value: True, ""),
    "ha-sync-mode": Key(_is_one_of("manual", "automatic"), 'ha-sync-mode must be "manual" or "automatic", got {}'),
    "ha-sync-batch-size": Key(
        lambda value: _is_count(value) and value > 0, "ha-sync-batch-size takes an integer greater than 0, {} given"
    ),
    "ha-promote-on-shutdown": Key(
        _is_one_of("always", "when-synced"), 'ha-promote-on-shutdown must be "always" or "when-synced", got {}'
    ),
    "ha-promote-on-failure": Key(
        _is_one_of("always", "when-synced"), 'ha-promote-on-failure must be "always" or "when-synced", got {}'
    ),
}

# Keys that become no argument of a queue.
NOT_OF_QUEUES = frozenset(
    (
        "alternate-exchange",
        MESSAGE_ID,
        REPROCESS_EVERY,
        ARCHIVE_AFTER,
        *(key for key in KEYS if key.startswith(("ha-", "federation-"))),
    )
)


def mirroring_refusal(definition: Arguments) -> tuple[str, str] | None:
    """The first key that asks for mirrored queues, and why it is refused; None if there is none. What was exported from
    RabbitMQ is imported with such keys, though they have no effect: without them, or without a policy that has nothing
    else, another policy might apply, and expire or drop messages."""
    for name in sorted(definition):
        if name.startswith("ha-"):
            return name, f"there are no mirrored queues: {name} would have no effect"
    return None


def check_policy(policy: Policy, imported: bool = False) -> None:
    """Raises InvalidPolicy with what is to blame first: the policy's own fields, then bad values in the order of their
    keys, then keys nobody knows. Fields are checked as if their types were not, for they come from outside."""
    if not _is_text(policy.name) or not 0 < len(policy.name) <= NAME_CHARACTERS_MAX:
        raise InvalidPolicy("name", f"a policy's name has 1 to {NAME_CHARACTERS_MAX} characters")
    if not _is_text(policy.pattern):
        raise InvalidPolicy("pattern", f"pattern should be a binary but was {shown_json(policy.pattern)}")
    try:
        compile_pattern(policy.pattern)
    except ValueError as error:
        raise InvalidPolicy("pattern", f"pattern should be regular expression but is invalid: {error}") from None
    if not is_integer(policy.priority):
        # RabbitMQ takes fractions as well, and its own tools cannot give them.
        wanted = "a whole number" if isinstance(policy.priority, float) else "a number"
        raise InvalidPolicy("priority", f"priority should be {wanted}, actually was {shown_json(policy.priority)}")
    if abs(policy.priority) > INTEGER_MAX:
        raise InvalidPolicy("priority", "priority should be a number of at most 64 bits")
    if policy.apply_to not in APPLY_TO:
        choices = ", ".join(f"'{choice}'" for choice in APPLY_TO[:-1])
        shown = policy.apply_to if isinstance(policy.apply_to, str) else shown_json(policy.apply_to)
        text = f"apply-to '{shown}' unrecognised; should be {choices} or '{APPLY_TO[-1]}'"
        raise InvalidPolicy("apply-to", text)
    _check_definition(policy.definition, policy.operator)
    _check_reach(policy)
    refused = None if imported else mirroring_refusal(policy.definition)
    if refused is not None:
        raise InvalidPolicy(*refused)


def _check_definition(definition: Any, operator: bool) -> None:
    if not isinstance(definition, dict):
        raise InvalidPolicy("definition", f"definition should be an object but was {shown_json(definition)}")
    if not definition:
        raise InvalidPolicy("definition", "no policy provided")
    unknown = []
    for name in sorted(definition):
        key = KEYS.get(name)
        if key is None or (operator and not key.operator):
            unknown.append(name)
        elif not key.check(definition[name]):
            raise InvalidPolicy(name, key.refusal.replace("{}", shown_json(definition[name]), 1))
    if unknown:
        shown = ",".join(f"{{{shown_json(name)},{shown_json(definition[name])}}}" for name in unknown)
        raise InvalidPolicy(unknown[0], f"[{shown}] are not recognised policy settings")
    _check_mirroring(definition)
    _check_federation(definition)


def _check_federation(definition: dict[str, Any]) -> None:
    """One way of naming upstreams at a time, as in RabbitMQ."""
    named = sorted(name for name in definition if name.startswith("federation-"))
    if len(named) > 1:
        raise InvalidPolicy(named[1], f"cannot specify {' and '.join(named)} together")


def _check_reach(policy: Policy) -> None:
    """Nothing is taken that could have no effect at all."""
    for name in sorted(policy.definition):
        only = KEYS[name].only
        reached = policy.apply_to == "all" or (policy.apply_to == EXCHANGES) == (only == EXCHANGES)
        if only and not reached:
            text = f"{name} is for {only}: it has no effect with apply-to '{policy.apply_to}'"
            instead = KEYS[name].instead
            raise InvalidPolicy(name, f"{text}; {instead.replace('{}', name)}" if instead else text)


def _check_mirroring(definition: dict[str, Any]) -> None:
    """Which of RabbitMQ's mirroring keys go together."""
    mode: Any = definition.get("ha-mode")
    parameters: Any = definition.get("ha-params")
    first = next((name for name in definition if name.startswith("ha-")), None)
    if mode is None and first is not None:
        text = "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"
        raise InvalidPolicy(first, text)
    given = shown_json(parameters) if "ha-params" in definition else "none"
    if mode == "all" and "ha-params" in definition:
        raise InvalidPolicy("ha-params", 'ha-mode="all" does not take parameters')
    if mode == "exactly" and not (is_integer(parameters) and 0 < parameters <= INTEGER_MAX):
        raise InvalidPolicy("ha-params", f'ha-mode="exactly" takes an integer, {given} given')
    if mode == "nodes" and not (isinstance(parameters, list) and all(map(_is_text, parameters))):
        raise InvalidPolicy("ha-params", f'ha-mode="nodes" takes a list, {given} given')
    if mode == "nodes" and not parameters:
        raise InvalidPolicy("ha-params", 'ha-mode="nodes" list must be non-empty')


def _is_text(value: Any) -> bool:
    """A string that can be written as UTF-8: half of a surrogate pair cannot, though JSON has a way to say it."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def shown_json(value: Any) -> str:
    """What came as JSON, as Erlang's ~p prints it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return shown_octets(value.encode("utf-8", "replace"))
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(shown_json, value)) + "]"
    if isinstance(value, dict):
        return "#{" + ",".join(f"{shown_json(name)} => {shown_json(item)}" for name, item in value.items()) + "}"
    return str(value)
