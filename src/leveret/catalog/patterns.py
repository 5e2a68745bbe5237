"""Patterns that operators write to choose queues and exchanges by name: compiled, or refused.

A pattern runs against every name of a virtual host, on the broker's one thread, and Python's matcher tries every way to
match before it gives up. So a pattern has a length, and a repetition inside a repetition, whose ways multiply with each
letter of a name, is refused: (a+)+ can be written as a+. A few .* in one pattern remain possible, and slow on names
that nearly match."""

from __future__ import annotations

import re
import warnings

PATTERN_CHARACTERS_MAX = 1024
# A repetition with a bound up to this is no danger inside another.
_SHORT_REPEAT_MAX = 8
_REPEAT = re.compile(r"[*+]|\{([0-9]*)(,?)([0-9]*)\}")


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Raises ValueError with what is wrong."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {PATTERN_CHARACTERS_MAX} characters")
    try:
        with warnings.catch_warnings():
            # What Python warns of, such as [[:alpha:]], would not mean what its writer thinks.
            warnings.simplefilter("error")
            compiled = re.compile(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise ValueError(f"{error.msg}{place}") from None
    except (Warning, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if has_nested_repeat(pattern):
        raise ValueError("a repetition inside a repetition can take forever")
    return compiled


def has_nested_repeat(pattern: str) -> bool:
    """Whether a group that is repeated holds something that is repeated. The pattern is known to compile."""
    # For the whole and each open group: does it hold a long repetition?
    holds = [False]
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        inner = False
        if letter == "(":
            holds.append(False)
            # What follows is a quantifier of nothing: (?:, (?=, (?P<name>
            position += 2 if pattern.startswith("(?", position) else 1
            continue
        if letter == ")":
            inner = holds.pop()
            position += 1
        elif letter == "\\":
            position += 2
        elif letter == "[":
            position = _end_of_set(pattern, position)
        else:
            position += 1
        repeat = _REPEAT.match(pattern, position)
        long = repeat is not None and _is_long(repeat)
        if long and inner:
            return True
        holds[-1] = holds[-1] or inner or long
        if repeat is not None:
            position = repeat.end()
    return False


def _end_of_set(pattern: str, position: int) -> int:
    """Just behind the ] that closes the set which opens here; a ] that comes first is a letter of it."""
    position += 1
    if pattern.startswith("^", position):
        position += 1
    if pattern.startswith("]", position):
        position += 1
    # A set that never closes stands in a comment of the pattern.
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1


def _is_long(repeat: re.Match[str]) -> bool:
    if repeat[0] in ("*", "+"):
        return True
    low, comma, high = repeat.groups()
    if not low and not high:
        # {} and {,}: the first is two letters, the second like *.
        return bool(comma)
    most = high if comma else low
    return not most or int(most) > _SHORT_REPEAT_MAX
