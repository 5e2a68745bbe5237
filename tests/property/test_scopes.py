"""Patterns of scopes and of topic permissions against plain models of what they mean."""

from __future__ import annotations

import re
import time
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from leveret.auth.identity import CatalogUser
from leveret.auth.scopes import matches, read_scopes
from leveret.catalog.patterns import Pattern, expanded
from leveret.catalog.records import Permission, TopicPermission
from tests.unit.catalog.naming import catalog_of

letters = st.text("ab*/%+ .ü", max_size=8)
names = st.text(min_size=1, max_size=8).filter(lambda name: name.isprintable())


@given(parts=st.lists(letters, min_size=1, max_size=4), text=letters)
def test_a_pattern_is_a_regular_expression_with_stars(parts: list[str], text: str) -> None:
    pattern = "*".join(quote(part, safe="") for part in parts)
    model = ".*".join(re.escape(part) for part in parts)
    assert matches(pattern, text) is (re.fullmatch(model, text, re.S) is not None)


@given(parts=st.lists(letters, min_size=1, max_size=4), between=st.lists(letters, min_size=3, max_size=3))
def test_whatever_stands_for_the_stars_fits(parts: list[str], between: list[str]) -> None:
    pattern = "*".join(quote(part, safe="") for part in parts)
    text = parts[0] + "".join(filler + part for filler, part in zip(between, parts[1:], strict=False))
    assert matches(pattern, text)


@given(vhost=names, name=names, key=names)
def test_a_quoted_scope_allows_exactly_its_own(vhost: str, name: str, key: str) -> None:
    scope = "rabbitmq.write:" + "/".join(quote(part, safe="") for part in (vhost, name, key))
    granted = read_scopes([scope], "rabbitmq.")
    assert granted.allows("write", vhost, name)
    assert granted.allows_topic("write", vhost, name, key)
    for other in (vhost + "x", "x" + vhost):
        assert not granted.allows("write", other, name)
        assert not granted.may_enter(other)
    assert not granted.allows_topic("write", vhost, name, key + "x")


@given(scope=st.text(max_size=40))
def test_nothing_that_anybody_writes_into_a_scope_breaks_it(scope: str) -> None:
    granted = read_scopes(["rabbitmq." + scope, scope], "rabbitmq.")
    granted.may_enter("/")
    granted.allows("read", "/", "q")
    granted.allows_topic("write", "/", "x", "k")


def test_many_stars_take_no_longer() -> None:
    began = time.process_time()
    for _ in range(100):
        assert not matches("*a" * 200 + "b", "a" * 4000)
    assert time.process_time() - began < 2.0


# ---- topic permissions


@given(user=names, vhost=names, key=names)
def test_a_variable_stands_for_its_letters_and_nothing_else(user: str, vhost: str, key: str) -> None:
    """A user called .* would otherwise be everybody."""
    permission = TopicPermission(user, vhost, "amq.topic", "^{username}$", r"^{vhost}\.{client_id}")
    everything = Permission(user, vhost, ".*", ".*", ".*")
    identity = CatalogUser(catalog_of(everything, permission), user)
    assert identity.allows_topic("write", vhost, "amq.topic", user)
    assert identity.allows_topic("write", vhost, "amq.topic", key) is (key == user)
    assert identity.allows_topic("read", vhost, "amq.topic", f"{vhost}.{{client_id}}") is True


@given(value=st.text(max_size=10), before=letters, after=letters)
def test_an_expanded_pattern_is_found_where_its_value_is(value: str, before: str, after: str) -> None:
    pattern = Pattern(expanded("{username}", value, "v"))
    assert pattern.found_in(before + value + after)
    assert pattern.fits(value)
