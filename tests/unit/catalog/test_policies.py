"""Which policy applies, and what arguments come of it. The cases were tried on RabbitMQ 3.10.8."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from leveret.catalog.policies import (
    NOTHING_APPLIED,
    Applied,
    PolicyBook,
    effective_exchange_arguments,
    effective_queue_arguments,
)
from leveret.catalog.policy_keys import KEYS, SMALLEST
from leveret.catalog.records import Policy, QueueRecord
from tests.unit.catalog.naming import exchange, policy, queue

KINDS = ["classic", "quorum", "stream"]
LIMITS = [key for key, facts in KEYS.items() if facts.operator]


def queue_of(kind: str, name: str = "q", **arguments: Any) -> QueueRecord:
    return QueueRecord("/", name, kind, True, False, 0, {f"x-{key}": value for key, value in arguments.items()})


def effective(record: QueueRecord, *policies: Policy) -> dict[str, Any]:
    return effective_queue_arguments(record, *PolicyBook(policies).of_queue(record))


# ---- which one applies


def test_without_policies_nothing_applies() -> None:
    assert PolicyBook().of_queue(queue("q")) == PolicyBook().of_exchange(exchange("x")) == NOTHING_APPLIED
    assert (NOTHING_APPLIED.name, NOTHING_APPLIED.operator_name, NOTHING_APPLIED.definition) == (None, None, {})


def test_a_pattern_is_found_anywhere_in_the_name() -> None:
    book = PolicyBook([policy("p", pattern="ord")])
    assert book.of_queue(queue("new-orders")).name == "p"
    assert book.of_queue(queue("Orders")).name is None
    assert book.of_exchange(exchange("order")).name == "p"


def test_the_highest_priority_applies_alone() -> None:
    book = PolicyBook(
        [
            policy("low", {"message-ttl": 1, "max-length": 1}, priority=-1),
            policy("high", {"expires": 2}, priority=5),
            policy("middle", {"message-ttl": 3}),
        ]
    )
    applied = book.of_queue(queue("q"))
    assert (applied.name, applied.definition) == ("high", {"expires": 2})


def test_of_equal_priorities_the_name_that_sorts_first_applies_whatever_came_first() -> None:
    names = ["b", "a", "c"]
    for order in (names, names[::-1]):
        assert PolicyBook([policy(name) for name in order]).of_queue(queue("q")).name == "a"


@pytest.mark.parametrize(
    ("apply_to", "applies"),
    [
        ("all", {"classic", "quorum", "stream", "exchange"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("exchanges", {"exchange"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
    ],
)
def test_what_a_policy_is_for(apply_to: str, applies: set[str]) -> None:
    book = PolicyBook([policy("p", {"max-length-bytes": 5}, apply_to=apply_to)])
    found = {kind for kind in KINDS if book.of_queue(queue_of(kind)).name}
    assert found | ({"exchange"} if book.of_exchange(exchange("x")).name else set()) == applies


def test_a_policy_with_a_key_that_a_queue_does_not_have_leaves_it_to_the_next() -> None:
    book = PolicyBook(
        [
            policy("high", {"delivery-limit": 5, "message-ttl": 1}, priority=10),
            policy("low", {"max-length-bytes": 2}, priority=1),
            policy("high", {"delivery-limit": 7, "message-ttl": 3}, priority=10, operator=True),
        ]
    )
    # RabbitMQ knows a delivery limit of quorum queues alone; here classic queues have one as well.
    assert [(a.name, a.operator_name, a.definition) for a in map(book.of_queue, map(queue_of, KINDS))] == [
        ("high", "high", {"delivery-limit": 5, "message-ttl": 1}),
        ("high", "high", {"delivery-limit": 5, "message-ttl": 1}),
        ("low", None, {"max-length-bytes": 2}),
    ]
    # An exchange has nothing to do with either key, and does not mind.
    assert book.of_exchange(exchange("x")).name == "high"


def test_a_replaced_policy_takes_its_new_rank_and_a_removed_one_is_gone() -> None:
    book = PolicyBook([policy("a", pattern="^q", priority=5), policy("b")])
    assert book.of_queue(queue("q")).name == "a"
    book.put(policy("a", pattern="^q", priority=-5))
    assert (book.of_queue(queue("q")).name, len(book)) == ("b", 2)
    assert book.remove("b") == policy("b")
    assert book.of_queue(queue("q")).name == "a"
    assert book.remove("a", operator=True) is None
    assert book.remove("a") is not None
    assert book.of_queue(queue("q")) == NOTHING_APPLIED


def test_an_operators_policy_stands_beside_the_users_of_the_same_name() -> None:
    book = PolicyBook([policy("p", {"max-length": 10}), policy("p", {"max-length": 5}, operator=True)])
    applied = book.of_queue(queue("q"))
    assert (applied.name, applied.operator_name, applied.definition) == ("p", "p", {"max-length": 5})


def test_ten_thousand_queues_are_one_pass() -> None:
    """Each pattern is compiled once, not once a queue; the test's own deadline would tell otherwise."""
    book = PolicyBook([policy(f"p{n}", pattern=f"^queue-{n}[0-9]*$", priority=n) for n in range(40)])
    applied = [book.of_queue(queue(f"queue-{n}")).name for n in range(10_000)]
    assert applied[7] == "p7"
    assert applied[399] == "p39"


# ---- what comes of it


def test_limits_are_the_smallest_of_all_and_other_arguments_stay_as_declared() -> None:
    common = {"message-ttl": 100, "expires": 100, "max-length": 100, "max-length-bytes": 100}
    texts = {"overflow": "reject-publish", "dead-letter-exchange": "polx", "dead-letter-routing-key": "polk"}
    users = policy("p", {**common, **texts, "queue-mode": "lazy"})
    operators = policy("o", dict.fromkeys(common, 50), operator=True)
    declared: dict[str, Any] = {"overflow": "drop-head", "dead-letter-exchange": "argx", "queue-mode": "default"}
    low = queue_of("classic", **declared, **dict.fromkeys(common, 1))
    high = queue_of("classic", **declared, **dict.fromkeys(common, 200))
    plain = queue_of("classic")
    limits = [f"x-{key}" for key in common]
    for record, alone, limited in ((low, 1, 1), (high, 100, 50), (plain, 100, 50)):
        assert [effective(record, users)[limit] for limit in limits] == [alone] * 4
        assert [effective(record, users, operators)[limit] for limit in limits] == [limited] * 4
    assert effective(plain, users)["x-dead-letter-exchange"] == "polx"
    assert effective(plain, users)["x-overflow"] == "reject-publish"
    assert effective(low, users)["x-overflow"] == "drop-head"
    assert effective(low, users)["x-queue-mode"] == "default"


def test_a_policys_routing_key_goes_with_a_declared_dead_letter_exchange() -> None:
    users = policy("p", {"dead-letter-exchange": "polx", "dead-letter-routing-key": "polk"})
    made = effective(queue_of("classic", **{"dead-letter-exchange": "argx"}), users)
    assert made == {"x-dead-letter-exchange": "argx", "x-dead-letter-routing-key": "polk"}


def test_on_quorum_queues_a_policy_decides_overflow_and_expiry() -> None:
    users = policy("p", {"overflow": "reject-publish", "expires": 100, "message-ttl": 100, "delivery-limit": 9})
    declared: dict[str, Any] = {"overflow": "drop-head", "expires": 90, "message-ttl": 1, "delivery-limit": 5}
    made = effective(queue_of("quorum", **declared), users)
    expected = {"x-overflow": "reject-publish", "x-expires": 100, "x-message-ttl": 1, "x-delivery-limit": 5}
    assert made == expected


@pytest.mark.parametrize(
    ("key", "smaller", "larger"),
    [("max-age", "7D", "1M"), ("max-length-bytes", 5, 9), ("stream-max-segment-size-bytes", 5, 9)],
)
def test_on_streams_a_policy_decides_what_is_kept(key: str, smaller: Any, larger: Any) -> None:
    for declared, ruled in ((smaller, larger), (larger, smaller)):
        assert effective(queue_of("stream", **{key: declared}), policy("p", {key: ruled})) == {f"x-{key}": ruled}


def test_what_no_policy_touches_stays_and_the_record_too() -> None:
    record = queue_of("classic", **{"max-priority": 5, "max-length": 9})
    made = effective(record, policy("p", {"max-length": 3, "retry-delays": "1s", "parking-lot": "lot"}))
    assert made == {"x-max-priority": 5, "x-max-length": 3, "x-retry-delays": "1s", "x-parking-lot": "lot"}
    assert record.arguments == {"x-max-priority": 5, "x-max-length": 9}


def test_keys_of_exchanges_and_of_mirroring_become_no_argument_of_a_queue() -> None:
    given_keys = policy("p", {"alternate-exchange": "x", "ha-mode": "all", "max-length": 3})
    assert effective(queue("q"), given_keys) == {"x-max-length": 3}


def test_an_exchange_takes_its_alternate_from_a_policy_unless_it_has_one() -> None:
    applied = Applied(policy("p", {"alternate-exchange": "lost", "message-ttl": 5}))
    assert effective_exchange_arguments(exchange("x"), *applied) == {"alternate-exchange": "lost"}
    declared = exchange("x", **{"alternate-exchange": "own"})
    assert effective_exchange_arguments(declared, *applied) == {"alternate-exchange": "own"}
    assert effective_exchange_arguments(exchange("x"), *NOTHING_APPLIED) == {}
    # RabbitMQ shows the policy for the default exchange, and routes as if there were none.
    assert effective_exchange_arguments(exchange(""), *applied) == {}


def limits_of(key: str) -> some.SearchStrategy[int]:
    return some.integers(1 if key in ("expires", "consumer-timeout") else 0, 1000)


definitions = some.sets(some.sampled_from(LIMITS)).flatmap(
    lambda keys: some.fixed_dictionaries({key: limits_of(key) for key in sorted(keys)})
)
texts = some.fixed_dictionaries(
    {},
    optional={
        "overflow": some.sampled_from(["drop-head", "reject-publish"]),
        "dead-letter-exchange": some.sampled_from(["a", "b"]),
        "queue-mode": some.sampled_from(["default", "lazy"]),
    },
)


@given(
    kind=some.sampled_from(["classic", "quorum"]),
    declared=definitions,
    declared_texts=texts,
    users=definitions,
    user_texts=texts,
    operators=definitions,
)
def test_whatever_is_declared_and_set_no_limit_of_an_operator_is_passed(
    kind: str,
    declared: dict[str, int],
    declared_texts: dict[str, str],
    users: dict[str, int],
    user_texts: dict[str, str],
    operators: dict[str, int],
) -> None:
    record = queue_of(kind, **declared, **declared_texts)
    one, two = policy("p", {**users, **user_texts}), policy("o", operators, operator=True)
    made = effective_queue_arguments(record, one, two)
    assert set(made) == {f"x-{key}" for key in {*declared, *declared_texts, *users, *user_texts, *operators}}
    for key, limit in operators.items():
        assert made[f"x-{key}"] <= limit
    for key in {*declared, *users, *operators}:
        sources = [source[key] for source in (declared, users, operators) if key in source]
        if kind == "quorum" and key == "expires" and (key in users or key in operators):
            sources = [source[key] for source in (users, operators) if key in source]
        assert KEYS[key].rule == SMALLEST
        assert made[f"x-{key}"] == min(sources)
    for key in {*declared_texts, *user_texts}:
        policy_wins = kind == "quorum" and key == "overflow"
        texts_in_turn = (user_texts, declared_texts) if policy_wins else (declared_texts, user_texts)
        assert made[f"x-{key}"] == next(given_texts[key] for given_texts in texts_in_turn if key in given_texts)
