"""Patterns that people write to choose queues, exchanges and routing keys by name: compiled, or refused.

A pattern runs against every name of a virtual host, on the broker's one thread, and anybody may send one. So all of
them are matched by RE2, whose time grows with the length of the name and the size of the pattern and with nothing else.
What it cannot do (look-around, backreferences) is refused where a pattern is set. No other module matches what came
from outside: tests/tidy/test_patterns.py looks who imports `re`.

A pattern is about letters. Names are octets that are mostly UTF-8; each octet of a name that is not counts as one
letter, which no letter of a pattern is and which `.` and [^a] match."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

PATTERN_CHARACTERS_MAX: Final = 1024
# What is longer than any name can be is cut before it is matched, such as a name in a header that a client wrote.
NAME_CHARACTERS_MAX: Final = 255
# Of one compiled pattern, with what RE2 remembers while it matches.
PATTERN_BYTES_MAX: Final = 512 * 1024
# Steps of RE2's program: for each letter of a name it takes no more than these. Enough for ^.{1,255}$.
PROGRAM_STEPS_MAX: Final = 4096
# Compiled patterns that are kept for permissions, which are asked about again and again.
KEPT_MAX: Final = 256

# Octets that are no UTF-8 are lone surrogates in our texts, which RE2 does not take: letters of a private area instead.
_PRIVATE: Final = {surrogate: surrogate + 0x102000 for surrogate in range(0xD800, 0xE000)}
_UNSUPPORTED: Final = "invalid perl operator: "
_ESCAPE: Final = "invalid escape sequence: "
_NOT_LINEAR: Final = "patterns are matched in linear time (RE2), which rules out look-around and backreferences"


class Pattern:
    __slots__ = ("_regexp", "text")

    def __init__(self, text: str) -> None:
        """Raises ValueError with what is wrong."""
        self.text = text
        options = re2.Options()
        options.max_mem = PATTERN_BYTES_MAX
        options.log_errors = False
        options.never_capture = True
        try:
            self._regexp: Any = re2.compile(_octets(text), options)
        except re2.error as error:
            raise ValueError(_explained(error)) from None
        if self._regexp.programsize > PROGRAM_STEPS_MAX:
            raise ValueError("it is too large: repetitions such as {1,1000} count as often as they may repeat")

    def found_in(self, name: str) -> bool:
        """Whether it matches anywhere in the name."""
        return self._regexp.search(_octets(name)) is not None

    def fits(self, name: str) -> bool:
        """Whether it matches the whole name."""
        return self._regexp.fullmatch(_octets(name)) is not None


def compile_pattern(pattern: str) -> Pattern:
    """Raises ValueError with what is wrong."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {PATTERN_CHARACTERS_MAX} characters")
    return Pattern(pattern)


def problem_of(pattern: str) -> str | None:
    """Why a pattern that is stored is of no use, or None: an older version may have taken what this one does not."""
    try:
        _kept(pattern)
    except ValueError as error:
        return str(error)
    return None


def is_found(pattern: str, name: str) -> bool:
    """Whether a permission's pattern allows the name. Patterns are checked when they are set; one that does not compile
    all the same, such as one from an older version, allows nothing. An empty one does neither, as in RabbitMQ."""
    try:
        return _kept(pattern or "^$").found_in(name)
    except ValueError:
        return False


def expanded(pattern: str, user: str, vhost: str) -> str:
    """{username} and {vhost} become what they stand for, letter by letter: a user called .* matches no more for it. A
    brace in a value is escaped, so that no value is expanded in turn."""
    return pattern.replace("{username}", escaped(user)).replace("{vhost}", escaped(vhost))


def escaped(text: str) -> str:
    """The pattern that fits this text alone."""
    return "".join(letter if letter.isalnum() or not letter.isascii() else f"\\x{ord(letter):02x}" for letter in text)


@lru_cache(maxsize=KEPT_MAX)
def _kept(text: str) -> Pattern:
    return Pattern(text)


def _octets(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.translate(_PRIVATE).encode()


def _explained(error: Exception) -> str:
    """RE2's words, with the reason for what other matchers can do."""
    given = error.args[0] if error.args else b""
    text = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
    operator = text.removeprefix(_UNSUPPORTED)
    if operator != text:
        return f"{operator} is not supported: {_NOT_LINEAR}"
    escape = text.removeprefix(_ESCAPE)
    if escape != text and escape[1:2].isdigit():
        return f"the backreference {escape} is not supported: {_NOT_LINEAR}"
    if "bad repetition operator" in text:
        return f"{text}; one repetition cannot follow another, and possessive ones are not supported"
    if "too large" in text:
        return "it is too large: repetitions such as {1,1000} count as often as they may repeat"
    return text
