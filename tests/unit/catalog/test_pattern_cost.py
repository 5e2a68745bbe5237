"""What a pattern costs: that what can take forever is found, what cannot is let be, and that the bound holds."""

from __future__ import annotations

import math
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.catalog.pattern_cost import NAME_CHARACTERS_MAX, steps_max
from leveret.catalog.patterns import STEPS_MAX


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+x",
        "(a*)*b",
        "(?:a+)*x",
        "((a+)b?)+x",
        "([a-z]*)+x",
        "([]a]*)+x",
        "(?:(?:(?=a))*[ab])+x",
        "(a{2,})+x",
        "(a+){2,}x",
        "(a+){20}x",
        "(a+?)+x",
        "(?P<n>a+)+x",
        "(x+x+)+y",
        # Not a repetition inside a repetition, and as bad.
        "(a|a)+x",
        "(a|aa)+x",
        "(ab|ab?)+x",
        "(a{1,3})+x",
        "(a?){40}x",
        "((?:){60000}){60000}",
        r"((\b){3000}){3000}",
    ],
)
def test_what_can_take_forever_is_found(pattern: str) -> None:
    re.compile(pattern)
    assert steps_max(pattern) == math.inf


@pytest.mark.parametrize(
    "pattern", [".*.*.*.*x", "a?" * 22 + "x", "(.*){8}x", "a.*b.*c.*d", "(a*b*){3}x", r"(((\b){8}){8}){8}"]
)
def test_what_can_take_long_is_found(pattern: str) -> None:
    re.compile(pattern)
    assert STEPS_MAX < steps_max(pattern) < math.inf


@pytest.mark.parametrize(
    ("pattern", "degree"),
    [
        ("^orders$", 0),
        ("^(orders|billing)-", 0),
        ("^(?!amq\\.).*", 0),
        (r"^[a-z]+\.[0-9]+\.[a-z]+$", 1),
        ("^(a.*|b.*)$", 1),
        (r"^([^.]+\.)+x", 2),
        ("orders", 1),
        (".*dead.*letter", 3),
        ("^a.*b.*c.*d", 3),
        ("(foo|bar)+x", 2),
        # Nothing is tried again where a match is over.
        ("^(a+)(b+)?", 1),
        ("^.*", 0),
    ],
)
def test_where_the_next_letter_decides_there_is_one_way(pattern: str, degree: int) -> None:
    assert steps_max(pattern) == math.comb(NAME_CHARACTERS_MAX + degree, degree)


def test_letters_of_either_case_are_the_same_if_the_pattern_says_so() -> None:
    assert steps_max("^(a+A+)x") < steps_max("(?i)^(a+A+)x")
    assert steps_max("^(a+A+)x") < steps_max("^(?i:a+A+)x")


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "ab", "a?", "\\w", "(?=a)", "(?!b)", "^", "$"])
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,20}", "*?", ""])


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.builds(lambda body, repeat: f"(?:{body}){repeat}", inner, REPEATS)
    choices = st.builds(lambda one, other: f"(?:{one}|{other})", inner, inner)
    return groups | choices | st.builds(str.__add__, inner, inner)


PATTERNS = st.recursive(ATOMS, _combined, max_leaves=8).map(lambda pattern: pattern + "x")


@given(PATTERNS, st.sampled_from(["a", "ab", "b", "aab", "a\n"]))
@settings(max_examples=300, deadline=None)
def test_what_is_let_through_is_quick(pattern: str, unit: str) -> None:
    if steps_max(pattern) > STEPS_MAX:
        return
    compiled = re.compile(pattern)
    name = (unit * NAME_CHARACTERS_MAX)[:NAME_CHARACTERS_MAX]
    begun = time.process_time()
    compiled.search(name)
    assert time.process_time() - begun < 1.0
