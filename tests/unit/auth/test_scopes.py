"""Scopes of tokens: what RabbitMQ's notation means, letter by letter. To the examples of `matches` RabbitMQ 3.10.8 has
given the same answers."""

from __future__ import annotations

import pytest

from leveret.auth.scopes import SCOPES_MAX, Scope, Scopes, matches, read_scopes

PREFIX = "rabbitmq."


def scopes(*granted: str) -> Scopes:
    return read_scopes([PREFIX + one for one in granted], PREFIX)


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True),
        ("", "", True),
        ("", "a", False),
        ("a*b", "ab", True),
        ("a*b", "a", False),
        ("**", "x", True),
        ("a%2Ab", "a*b", True),
        ("a%2Ab", "axb", False),
        ("%2F", "/", True),
        ("%2f", "/", True),
        ("a%zz", "a%zz", False),
        ("a%", "a%", False),
        ("a+b", "a b", True),
        ("a+b", "a+b", False),
        ("a*a", "a", False),
        ("a*b*c", "abbc", True),
        ("a.b", "axb", False),
        ("*a*", "bab", True),
        ("a*", "A", False),
    ],
)
def test_a_pattern_fits_the_whole_text(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_a_resource_is_allowed_by_kind_vhost_and_name() -> None:
    granted = scopes("read:%2F/q*", "write:*/x/a.*", "configure:v/b")
    assert granted.allows("read", "/", "q1")
    assert not granted.allows("write", "/", "q1")
    assert not granted.allows("read", "v", "q1")
    assert granted.allows("write", "anywhere", "x")
    assert granted.allows("configure", "v", "b")
    assert not granted.allows("configure", "v", "bb")


def test_a_vhost_may_be_entered_if_any_scope_is_for_it() -> None:
    granted = scopes("configure:v/b", "tag:administrator")
    assert granted.may_enter("v")
    assert not granted.may_enter("/")
    assert not scopes("tag:administrator").may_enter("v")


def test_keys_are_allowed_by_scopes_that_have_one() -> None:
    granted = scopes("write:*/x/a.*", "read:%2F/q*")
    assert granted.allows_topic("write", "/", "x", "a.b")
    assert not granted.allows_topic("write", "/", "x", "b.a")
    assert not granted.allows_topic("read", "/", "x", "a.b")
    # As in RabbitMQ a scope without a key says nothing about keys.
    assert not granted.allows_topic("read", "/", "q1", "a.b")
    assert scopes("read:*/*/*").allows_topic("read", "/", "q1", "")


def test_what_is_not_meant_for_this_broker_is_passed_over() -> None:
    others = ["openid", "read:*/*", "other.write:*/*", "rabbitmq."]
    nonsense = [PREFIX + text for text in ("read", "read:*", "read:a/b/c/d", "x:*/*", "tag:king")]
    tags = [PREFIX + "tag:monitoring"] * 2
    granted = read_scopes([*others, *nonsense, *tags], PREFIX)
    assert granted.scopes == ()
    assert granted.tags == ("monitoring",)
    assert read_scopes(["read:*/*"], "").scopes == (Scope("read", "*", "*", None),)


def test_scopes_are_bounded() -> None:
    granted = read_scopes([f"rabbitmq.read:*/{number}" for number in range(SCOPES_MAX * 4)], PREFIX)
    assert len(granted.scopes) == SCOPES_MAX
    assert read_scopes(["rabbitmq.read:*/" + "x" * 5000], PREFIX).scopes == ()
