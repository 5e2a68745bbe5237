"""One condition of a headers binding: which values of a header satisfy it.

Owns what "equal" and the predicates mean. Never sees a whole message; core.matching.headers_matcher combines
conditions.

Equal is what RabbitMQ 3.10 finds equal: numbers by value whatever their type (1, 1.0, a timestamp of 1), text with
a byte array of the same octets, an empty array with an empty table, booleans only with booleans, decimals only with
decimals; inside an array or table also the kinds must agree, so that [1] is not [1.0]. A void in the binding asks for
presence alone.

Beyond RabbitMQ, a text in the binding of the form '>1000', '>=5', '<10', '<=2.5' or '!=x' is a predicate, tried
when equality does not hold:
- the four orderings need a number behind the sign (anything else makes it a plain text) and hold for headers that
  are numbers or text that reads as one: '>1000' holds for 1500, 1500.5 and '1500';
- '!=' compares as numbers where both sides are, otherwise as texts; a number differs from every text that is none;
- booleans, arrays, tables and voids satisfy no predicate, and neither does a missing header."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import cython

if not cython.compiled:
    PRESENT, EQUAL, PREDICATE = range(3)
    GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, DIFFERENT = range(5)

__all__ = ["NUMBER_CHARS_MAX", "HeaderCondition", "HeaderValue", "exact_key", "match_key"]

# A text longer than this is no number: reading one with a million digits would take its time.
NUMBER_CHARS_MAX = 40

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# Two signs before one, so that '>=' is not read as '>' with an odd operand.
_PREDICATE = re.compile(r"(>=|<=|!=|>|<)[ ]*(.*?)[ ]*", re.DOTALL)
_OPERATORS = {">": GREATER, ">=": GREATER_EQUAL, "<": LESS, "<=": LESS_EQUAL, "!=": DIFFERENT}

_TRUE = (bool, True)
_FALSE = (bool, False)
_EMPTY = (list, ())


def match_key(value: Any) -> Any:
    """A hashable stand-in for a header's value: equal keys, equal headers.

    Texts and numbers stand for themselves; whatever Python would confuse with them is wrapped in its type."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "surrogateescape")
    return _EMPTY if isinstance(value, dict) and not value else exact_key(value)


def exact_key(value: Any) -> Any:
    """As `match_key`, but values of different kinds stay apart, at every depth; integers of any width are one kind.

    Depth is bounded by the limit on nesting that core.codec.tables keeps."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        return (int, value)
    if isinstance(value, float):
        # A NaN is not equal to itself, but a binding that holds one must be found again.
        return (float, value if value == value else "nan")
    if isinstance(value, dict):
        return (dict, tuple([(name, exact_key(value[name])) for name in sorted(value)]))
    if isinstance(value, list):
        return (list, tuple([exact_key(item) for item in value]))
    return (type(value), value)


def number_of(value):
    """The value as a number if it is one or is a text that reads as one, else None."""
    if isinstance(value, str):
        if len(value) > NUMBER_CHARS_MAX or _NUMBER.fullmatch(value) is None:
            return None
        return int(value) if value.lstrip("+-").isdigit() else float(value)
    if isinstance(value, bool):
        return None
    return value if isinstance(value, (int, float, Decimal)) else None


class HeaderValue:
    """A header as one message has it. What conditions need to know of it is found out once, however many there are."""

    if not cython.compiled:
        __slots__ = ("key", "number", "read", "text", "value")

    def __init__(self, value):
        self.value = value
        self.key = match_key(value)
        self.read = False
        self.number = None
        self.text = None

    def as_number(self):
        if not self.read:
            self.read = True
            if isinstance(self.value, bytes):
                self.text = self.value.decode("utf-8", "surrogateescape")
            elif isinstance(self.value, str):
                self.text = self.value
            self.number = number_of(self.value if self.text is None else self.text)
        return self.number


class HeaderCondition:
    """What a binding asks of the header `name`."""

    if not cython.compiled:
        __slots__ = ("key", "kind", "name", "number", "operator", "text")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.kind = PRESENT if value is None else EQUAL
        self.key = None if value is None else match_key(value)
        self.operator = DIFFERENT
        self.number = None
        self.text = None
        parts = _PREDICATE.fullmatch(value) if isinstance(value, str) else None
        if parts is None or not parts[2]:
            return
        operator = _OPERATORS[parts[1]]
        number = number_of(parts[2])
        if number is None and operator != DIFFERENT:
            return
        self.kind = PREDICATE
        self.operator = operator
        self.number = number
        self.text = parts[2]

    def holds(self, value: Any) -> bool:
        """Whether a header that is there with this value satisfies the condition."""
        return self.accepts(HeaderValue(value))

    def accepts(self, seen):
        if self.kind == PRESENT or seen.key == self.key:
            return True
        return self.kind == PREDICATE and self.satisfies(seen)

    def satisfies(self, seen):
        number = seen.as_number()
        if number is None or self.number is None:
            if self.operator != DIFFERENT or (number is None and seen.text is None):
                return False
            return (seen.value if seen.text is None else seen.text) != self.text
        if self.operator == GREATER:
            return number > self.number
        if self.operator == GREATER_EQUAL:
            return number >= self.number
        if self.operator == LESS:
            return number < self.number
        if self.operator == LESS_EQUAL:
            return number <= self.number
        return number != self.number
