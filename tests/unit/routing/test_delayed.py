"""The x-delayed-message type: it is whatever type it was given."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.core.matching.headers_matcher import HeadersMatcher
from leveret.core.matching.topic_trie import TopicMatcher
from leveret.errors import SoftError
from leveret.routing.registry import exchange_type

DELAYED = exchange_type("x-delayed-message")


@pytest.mark.parametrize(("kind", "matcher"), [("topic", TopicMatcher), ("headers", HeadersMatcher)])
def test_it_routes_like_the_type_it_was_given(kind: str, matcher: type) -> None:
    arguments = {"x-delayed-type": kind}
    DELAYED.validate_arguments(arguments)
    assert type(DELAYED.matcher(arguments, lambda count: 0)) is matcher


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-delayed-type": "nothing"}, {"x-delayed-type": 5}, {"x-delayed-type": "x-delayed-message"}],
    ids=repr,
)
def test_it_must_be_given_an_existing_type_that_is_not_itself(arguments: dict[str, Any]) -> None:
    with pytest.raises(SoftError) as refused:
        DELAYED.validate_arguments(arguments)
    assert refused.value.code == 406
    assert refused.value.text == "Invalid argument, 'x-delayed-type' must be an existing exchange type"


def test_the_arguments_of_the_type_it_was_given_are_checked() -> None:
    with pytest.raises(SoftError, match="x-cache-size"):
        DELAYED.validate_arguments({"x-delayed-type": "x-message-deduplication"})
