"""Which policies are taken, and the texts for those that are not. Texts were read off RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.catalog import commands
from leveret.catalog.policy_keys import APPLY_TO, DURATION_MS_MAX, INTEGER_MAX, KEYS, check_policy, shown_json
from leveret.catalog.records import Policy
from leveret.errors import InvalidPolicy
from tests.unit.catalog.naming import policy

TAKEN: dict[str, list[Any]] = {
    "message-ttl": [0, 1, 2**32, DURATION_MS_MAX],
    "expires": [1, 2**32],
    "max-length": [0, INTEGER_MAX],
    "max-length-bytes": [0, INTEGER_MAX],
    "max-in-memory-length": [0],
    "max-in-memory-bytes": [0],
    "delivery-limit": [0, 20],
    "consumer-timeout": [1, 1_800_000],
    "overflow": ["drop-head", "reject-publish", "reject-publish-dlx"],
    "dead-letter-exchange": ["", "x", "x" * 255],
    "dead-letter-routing-key": ["", "k"],
    "dead-letter-strategy": ["at-most-once", "at-least-once"],
    "queue-mode": ["default", "lazy"],
    "queue-version": [1, 2],
    "queue-leader-locator": ["client-local", "balanced", "random", "least-leaders"],
    "queue-master-locator": ["client-local", "random", "min-masters"],
    "initial-cluster-size": [0, 3],
    "max-age": ["7D", "1Y", "1M", "12h", "5m", "30s"],
    "stream-max-segment-size-bytes": [0, 3_000_000_000],
    "alternate-exchange": ["", "x"],
    "retry-delays": ["1s, 5s", ["1s", 500]],
    "parking-lot": ["parked"],
    "reprocess-every": ["1h", "30 min", 60_000, 0, "off"],
    "archive-after": ["24h", 1, 0],
    "message-deduplication": [True, False],
    "cache-size": [1, INTEGER_MAX],
    "cache-ttl": [1, DURATION_MS_MAX],
    "message-id": ["uuid", "none"],
    "federation-upstream": ["up"],
    "federation-upstream-set": ["all", "some"],
    "federation-upstream-pattern": ["^up", ""],
}
NEITHER_NUMBER_NOR_TEXT = [1.5, True, None, [], {}]


def refusal(policy: Policy) -> tuple[str, str]:
    with pytest.raises(InvalidPolicy) as refused:
        check_policy(policy)
    return refused.value.key, refused.value.text


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in TAKEN.items() for value in values])
def test_good_values_are_taken_and_survive_a_log(key: str, value: Any) -> None:
    good = policy("p", {key: value})
    check_policy(good)
    assert commands.decode_command(commands.encode_command(commands.PutPolicy(good))) == commands.PutPolicy(good)


def test_every_key_is_tried() -> None:
    assert set(TAKEN) == {key for key in KEYS if not key.startswith("ha-")}


@pytest.mark.parametrize(
    ("key", "values", "text"),
    [
        ("message-ttl", ["x", -1, DURATION_MS_MAX + 1], "is not a valid message TTL"),
        ("expires", ["x", -1, 0], "is not a valid queue expiry"),
        ("max-length", ["x", -1, INTEGER_MAX + 1], "is not a valid maximum length"),
        ("max-length-bytes", ["x", -1], "is not a valid maximum length in bytes"),
        ("max-in-memory-length", ["x", -1], "is not a valid maximum memory in bytes"),
        ("max-in-memory-bytes", ["x", -1], "is not a valid maximum memory in bytes"),
        ("delivery-limit", ["x", -1], "is not a valid delivery limit"),
        ("cache-size", ["x", 0], "is not a number of keys"),
        ("cache-ttl", ["x", 0], "is not a valid time to remember keys"),
        ("message-id", ["x", 5], "is not a valid message-id: it is uuid or none"),
        ("consumer-timeout", ["x", 0], "is not a valid consumer timeout"),
        ("overflow", ["x", 5], "is not a valid overflow value"),
        ("dead-letter-exchange", [5, "x" * 256, "\ud800"], "is not a valid dead letter exchange name"),
        ("dead-letter-routing-key", [5, "\u00fc" * 128], "is not a valid dead letter routing key"),
        ("dead-letter-strategy", ["x", 5], "is not a valid dead letter strategy"),
        ("queue-mode", ["x", 5], "is not a valid queue-mode value"),
        ("queue-version", ["x", "1", 0, 3, 1.0], "is not a valid queue-version value"),
        ("queue-leader-locator", ["min-masters", 5], "is not a valid queue leader locator value"),
        ("queue-master-locator", ["balanced", 5], "invalid queue-master-locator value"),
        ("initial-cluster-size", ["x", -1], "is not a valid cluster size"),
        ("max-age", ["x", "1x", "1", "D", " 1D", 5], "is not a valid max age"),
        ("stream-max-segment-size-bytes", ["x", 3_000_000_001], "is not a valid segment size"),
        ("alternate-exchange", [5], "is not a valid alternate exchange name"),
        ("parking-lot", ["", 5, "x" * 256], "is not a valid parking lot: it takes the name of a queue"),
        ("federation-upstream", ["", 5], "is not a valid federation upstream"),
        ("federation-upstream-set", ["", 5], "is not a valid federation upstream set"),
        ("federation-upstream-pattern", ["(", 5], "is not a valid federation upstream pattern"),
        ("ha-mode", ["x", 5], "is not a valid ha-mode value"),
    ],
)
def test_bad_values_are_refused_in_rabbitmqs_words(key: str, values: list[Any], text: str) -> None:
    for value in [*values, *NEITHER_NUMBER_NOR_TEXT]:
        assert refusal(policy("p", {key: value})) == (key, f"{shown_json(value)} {text}")


@pytest.mark.parametrize("key", ["reprocess-every", "archive-after"])
@pytest.mark.parametrize("value", ["x", "1", "31d", -1, *NEITHER_NUMBER_NOR_TEXT], ids=repr)
def test_a_bad_time_of_a_schedule_is_named(key: str, value: Any) -> None:
    found, text = refusal(policy("p", {key: value}))
    assert found == key and key in text and repr(value) in text


def test_a_schedule_that_would_never_rest_is_refused() -> None:
    assert "1000 ms or more" in refusal(policy("p", {"reprocess-every": 1}))[1]
    check_policy(policy("p", {"archive-after": 1}))


def test_upstreams_are_named_in_one_way() -> None:
    key, text = refusal(policy("p", {"federation-upstream": "a", "federation-upstream-set": "all"}))
    assert (key, text) == (
        "federation-upstream-set",
        "cannot specify federation-upstream and federation-upstream-set together",
    )


def test_deduplication_is_on_or_off() -> None:
    for value in ("true", 1, 0, None, [], {}):
        answer = refusal(policy("p", {"message-deduplication": value}))
        assert answer == ("message-deduplication", f"{shown_json(value)} is not true or false")


def test_a_bad_delay_is_named() -> None:
    assert refusal(policy("p", {"retry-delays": "1s, soon"}))[0] == "retry-delays"
    assert "'soon'" in refusal(policy("p", {"retry-delays": "1s, soon"}))[1]


@pytest.mark.parametrize("key", ["nonsense", "max-priority", "single-active-consumer", "x-message-ttl", ""])
def test_keys_nobody_knows_are_refused(key: str) -> None:
    expected = f"[{{{shown_json(key)},5}}] are not recognised policy settings"
    assert refusal(policy("p", {key: 5})) == (key, expected)


def test_bad_values_come_before_unknown_keys_and_both_in_the_order_of_the_keys() -> None:
    assert refusal(policy("p", {"nonsense": 1, "message-ttl": "x", "expires": 0}))[0] == "expires"
    text = '[{<<"absurd">>,2},{<<"nonsense">>,1}] are not recognised policy settings'
    assert refusal(policy("p", {"nonsense": 1, "absurd": 2})) == ("absurd", text)


def test_operators_can_only_limit() -> None:
    limits = {"expires", "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length"}
    limits |= {"max-in-memory-bytes", "delivery-limit", "consumer-timeout"}
    for key, values in TAKEN.items():
        if key in limits:
            check_policy(policy("p", {key: values[0]}, operator=True))
        else:
            assert refusal(policy("p", {key: values[0]}, operator=True))[0] == key
    text = '[{<<"overflow">>,<<"drop-head">>}] are not recognised policy settings'
    assert refusal(policy("p", {"overflow": "drop-head", "max-length": 5}, operator=True)) == ("overflow", text)


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "no policy provided"),
        ([["message-ttl", 5]], 'definition should be an object but was [[<<"message-ttl">>,5]]'),
        (None, "definition should be an object but was null"),
    ],
)
def test_a_definition_is_an_object_with_something_in_it(definition: Any, text: str) -> None:
    bad = Policy("/", "p", "", "all", 0, definition)
    assert refusal(bad) == ("definition", text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (5, "pattern should be a binary but was 5"),
        (None, "pattern should be a binary but was null"),
        ("\ud800", 'pattern should be a binary but was <<"?">>'),
        ("[", "pattern should be regular expression but is invalid: missing ]: ["),
    ],
)
def test_a_pattern_is_a_regular_expression(pattern: Any, text: str) -> None:
    assert refusal(policy("p", pattern=pattern)) == ("pattern", text)


@pytest.mark.parametrize("name", ["", "x" * 1025, 5, None, "\udcff"])
def test_a_name_is_a_text_of_some_length(name: Any) -> None:
    assert refusal(policy(name))[0] == "name"


@pytest.mark.parametrize(
    ("priority", "text"),
    [
        ("5", 'priority should be a number, actually was <<"5">>'),
        (True, "priority should be a number, actually was true"),
        (None, "priority should be a number, actually was null"),
        ([], "priority should be a number, actually was []"),
        (1.5, "priority should be a whole number, actually was 1.5"),
        (2**64, "priority should be a number of at most 64 bits"),
    ],
)
def test_a_priority_is_a_whole_number(priority: Any, text: str) -> None:
    assert refusal(policy("p", priority=priority)) == ("priority", text)


def test_priorities_of_either_sign_are_taken() -> None:
    for priority in (-(10**12), -1, 0, 10**12):
        check_policy(policy("p", priority=priority))


def test_what_a_policy_is_for() -> None:
    for apply_to in APPLY_TO:
        check_policy(policy("p", apply_to=apply_to))
    wanted = "'all', 'queues', 'classic_queues', 'quorum_queues', 'streams' or 'exchanges'"
    assert refusal(policy("p", apply_to="queue")) == ("apply-to", f"apply-to 'queue' unrecognised; should be {wanted}")
    none: Any = None
    assert refusal(policy("p", apply_to=none))[1].startswith("apply-to 'null' unrecognised")


@pytest.mark.parametrize(
    ("definition", "key", "text"),
    [
        ({"ha-sync-mode": "automatic"}, "ha-sync-mode", "ha-mode must be specified to specify"),
        ({"ha-mode": "all", "ha-params": 2}, "ha-params", 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "all", "ha-params": None}, "ha-params", 'ha-mode="all" does not take parameters'),
        ({"ha-mode": "exactly"}, "ha-params", 'ha-mode="exactly" takes an integer, none given'),
        ({"ha-mode": "exactly", "ha-params": 0}, "ha-params", 'ha-mode="exactly" takes an integer, 0 given'),
        ({"ha-mode": "nodes"}, "ha-params", 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": []}, "ha-params", 'ha-mode="nodes" list must be non-empty'),
        ({"ha-mode": "nodes", "ha-params": [5]}, "ha-params", 'ha-mode="nodes" takes a list, [5] given'),
        ({"ha-mode": "all", "ha-sync-mode": "x"}, "ha-sync-mode", 'must be "manual" or "automatic", got <<"x">>'),
    ],
)
def test_mirroring_keys_must_fit_together(definition: dict[str, Any], key: str, text: str) -> None:
    blamed, said = refusal(policy("p", definition))
    assert blamed == key
    assert text in said


@pytest.mark.parametrize(
    "definition",
    [
        {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-promote-on-shutdown": "always"},
        {"ha-mode": "exactly", "ha-params": 2, "ha-sync-batch-size": 5},
        {"max-length": 5, "ha-mode": "nodes", "ha-params": ["rabbit@a"]},
    ],
)
def test_mirroring_keys_are_taken_by_imports_alone(definition: dict[str, Any]) -> None:
    check_policy(policy("p", definition), imported=True)
    answer = refusal(policy("p", definition))
    assert answer == ("ha-mode", "there are no mirrored queues: ha-mode would have no effect")


def test_a_refusal_reads_as_in_rabbitmqs_api() -> None:
    with pytest.raises(InvalidPolicy) as refused:
        check_policy(policy("p", {"message-ttl": "x"}))
    assert refused.value.reason == 'Validation failed\n\n<<"x">> is not a valid message TTL\n'
    assert str(refused.value) == 'message-ttl: <<"x">> is not a valid message TTL'


def test_a_refusal_does_not_quote_at_any_length() -> None:
    assert len(refusal(policy("p", {"message-ttl": ["x"] * 10_000}))[1]) < 1100


def test_values_are_shown_as_erlang_prints_them() -> None:
    assert shown_json({"a": [1, None, True, "b"], "c": {}}) == '#{<<"a">> => [1,null,true,<<"b">>],<<"c">> => #{}}'


@pytest.mark.parametrize(
    ("key", "value", "apply_to", "only"),
    [
        ("message-deduplication", True, "exchanges", "queues"),
        ("cache-ttl", 5, "exchanges", "queues"),
        *[("message-id", "uuid", apply_to, "exchanges") for apply_to in ("queues", "classic_queues", "streams")],
    ],
)
def test_a_key_of_ours_that_could_have_no_effect_is_refused(key: str, value: Any, apply_to: str, only: str) -> None:
    text = f"{key} is for {only}: it has no effect with apply-to '{apply_to}'"
    said = refusal(policy("p", {key: value}, apply_to=apply_to))
    assert (said[0], said[1].split("; ")[0]) == (key, text)
    check_policy(policy("p", {key: value}, apply_to=only))


@pytest.mark.parametrize(("key", "value"), [("message-deduplication", True), ("cache-size", 10), ("cache-ttl", 1000)])
def test_deduplication_of_exchanges_by_policy_is_refused_with_what_to_do_instead(key: str, value: Any) -> None:
    assert refusal(policy("p", {key: value}, apply_to="exchanges"))[1] == (
        f"{key} is for queues: it has no effect with apply-to 'exchanges'; "
        f"an exchange takes the argument x-{key} when it is declared"
    )
