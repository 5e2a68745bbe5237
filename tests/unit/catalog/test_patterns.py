"""Patterns: what compiles, what is refused, and that nothing that was let through takes forever on a name."""

from __future__ import annotations

import re
import warnings

import pytest

from leveret.catalog.patterns import PATTERN_CHARACTERS_MAX, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("", "anything"),
        ("^orders$", "orders"),
        ("rder", "orders"),
        (r"^amq\.", "amq.gen-x"),
        ("^(orders|billing)-", "billing-eu"),
        ("^(?!dead)", "alive"),
        (r"^[a-z]+\.[0-9]{1,3}$", "q.12"),
        (r"^(?P<tenant>\w+)\.x", "acme.x"),
        ("(?i)^Q", "q1"),
        ("^[])*+]+$", ")*+"),
        (r"\(a+\)+", "(aa))"),
        ("^(a{3})+$", "aaaaaa"),
        ("^(a.*|b.*)$", "b1"),
        (r"^(\w+\.)*x$", "a.b.x"),
        (r"^(?!amq\.)(?!.*dead).*\.q$", "alive.q"),
        (".*foo.*bar.*", "a foo and a bar and more"),
        ("(?#a comment with [)^q", "q"),
        (".*dead.*letter", "x.dead.y.letter"),
    ],
)
def test_a_pattern_is_searched_for_in_a_name(pattern: str, name: str) -> None:
    assert compile_pattern(pattern).search(name) is not None


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("[", "unterminated character set at position 0"),
        ("(", "missing )"),
        ("*a", "nothing to repeat"),
        ("a{2,1}", "min repeat greater than max"),
        ("\\", "bad escape"),
        ("(?<n>a)", "extension"),
        ("[[:alpha:]]", "nested set"),
        ("x" * (PATTERN_CHARACTERS_MAX + 1), "longer than"),
        ("a{99999999999999999999}", "too large"),
        ("(a+)+$", "inside a repetition"),
        ("(a|a)+$", "inside a repetition"),
        (".*.*.*.*x", "in a row"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        compile_pattern(pattern)


def test_refusing_leaves_the_warnings_of_others_alone() -> None:
    before = list(warnings.filters)
    with pytest.raises(ValueError, match="nested set"):
        compile_pattern("[[:alpha:]]")
    assert warnings.filters == before
