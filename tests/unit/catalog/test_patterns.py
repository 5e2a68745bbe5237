"""Patterns: what compiles, what is refused, what they mean, and that time grows with the name and with nothing else."""

from __future__ import annotations

import re
import time

import pytest

from leveret.catalog.patterns import (
    KEPT_MAX,
    NAME_CHARACTERS_MAX,
    PATTERN_CHARACTERS_MAX,
    Pattern,
    _kept,
    compile_pattern,
    escaped,
    expanded,
    is_found,
)

NESTED = "^.*.*" + "(?=.*" * 20 + ")" * 20


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("", "anything"),
        ("^orders$", "orders"),
        ("rder", "orders"),
        (r"^amq\.", "amq.gen-x"),
        ("^(orders|billing)-", "billing-eu"),
        (r"^[a-z]+\.[0-9]{1,3}$", "q.12"),
        (r"^(?P<tenant>\w+)\.x", "acme.x"),
        ("(?i)^Q", "q1"),
        ("^[])*+]+$", ")*+"),
        ("^(a{3})+$", "aaaaaa"),
        (r"^(\w+\.)*x$", "a.b.x"),
        (".*foo.*bar.*", "a foo and a bar and more"),
        ("[[:alpha:]]", "q"),
        ("(a+)+$", "aaa"),
        ("^.{1,255}$", "ä" * NAME_CHARACTERS_MAX),
        # What was written for one letter means one letter, however many octets it has.
        ("^.$", "ä"),
        ("^[äö]$", "ö"),
        ("(?i)^Ä$", "ä"),
    ],
)
def test_a_pattern_is_searched_for_in_a_name(pattern: str, name: str) -> None:
    assert compile_pattern(pattern).found_in(name)


def test_the_whole_name_fits_or_not() -> None:
    assert Pattern("a|ab").fits("ab") and not Pattern("a").fits("ab") and Pattern("a").found_in("ab")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("[", "missing ]"),
        ("(", "missing )"),
        ("*a", "no argument for repetition"),
        ("a{2,1}", "invalid repetition size"),
        ("\\", "trailing"),
        ("x" * (PATTERN_CHARACTERS_MAX + 1), "longer than"),
        ("^(?!dead)", "(?! is not supported: patterns are matched in linear time (RE2), which rules out look-around"),
        ("(?<=a)b", "(?<= is not supported"),
        (NESTED, "(?= is not supported"),
        (r"(a)\1", r"the backreference \1 is not supported"),
        ("(?P<a>x)(?P=a)", "(?P is not supported"),
        ("a++", "possessive"),
        (r"\p{L}{1,250}", "too large"),
        ("(.{0,255}a){3}b", "too large"),
        ("é(", "missing ): é("),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_reason(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        compile_pattern(pattern)


def test_octets_that_are_no_text_are_letters_of_their_own() -> None:
    name = b"a\xff\xc3".decode("utf-8", "surrogateescape")
    assert Pattern("^a..$").fits(name) and Pattern("^a[^b]{2}$").found_in(name) and not Pattern("^a.$").found_in(name)
    assert Pattern(name).fits(name)
    assert not Pattern(name).found_in(b"a\xfe\xc3".decode("utf-8", "surrogateescape"))
    assert not Pattern("Ã").found_in(name) and not Pattern("\ufffd").found_in(name) and not Pattern("ÿ").found_in(name)


def test_a_permission_without_a_pattern_allows_the_empty_name_alone() -> None:
    assert is_found("", "") and not is_found("", "a") and is_found(".*", "a")


@pytest.mark.parametrize("pattern", ["(", "[a", "*", "a{2,1}", "^(?!foo).*", r"(.)\1"])
def test_a_pattern_that_does_not_compile_allows_nothing(pattern: str) -> None:
    assert not is_found(pattern, "a") and not is_found(pattern, "")


def test_variables_stand_for_their_letters() -> None:
    assert expanded("{username}-{client_id}-{2}", "a.b", "v") == r"a\x2eb-{client_id}-{2}"
    assert Pattern(expanded("^{username}$", "{vhost}", "v")).fits("{vhost}")


@pytest.mark.parametrize("text", ["", ".*", "a\nb", "\0", "ä{2}", r"\d", "_ -#", "\udcff"])
def test_an_escaped_text_fits_itself_alone(text: str) -> None:
    assert Pattern(escaped(text)).fits(text) and not Pattern(escaped(text)).fits(text + "x")


def seconds(pattern: Pattern, name: str, times: int) -> float:
    """Of the processor, at best of some attempts."""
    best = float("inf")
    for _ in range(3):
        before = time.thread_time()
        for _ in range(times):
            pattern.found_in(name)
        best = min(best, time.thread_time() - before)
    return best


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|aa)+$",
        "(a*)*b",
        ".*" * 500 + "b",
        "^" + "(a?){20}" * 10 + "a{200}$",
        "(x+x+)+y|(a|a?)+b",
        "a.{0,40}b.{0,40}c|x",
        "(?:a.*){10}b",
    ],
)
def test_time_grows_with_the_name_alone(pattern: str) -> None:
    """A matcher that tries every way takes 2 ** 15 or 16 ** 10 times as long for a name of 16 times the length. The
    first match of any is left out, which builds tables."""
    compiled = compile_pattern(pattern)
    short, long = "a" * 512, "a" * 8192
    compiled.found_in(long)
    assert seconds(compiled, long, 4) < 1000 * max(seconds(compiled, short, 4), 20e-6)
    assert seconds(compiled, "ab" * 127, 20) < 20 * 0.1


def test_compiled_permissions_are_kept_up_to_a_limit() -> None:
    for number in range(2 * KEPT_MAX):
        is_found(f"^{number}$", "a")
    assert _kept.cache_info().currsize == KEPT_MAX
