"""How long a regular expression may take at worst: in how many ways can it fail to match a name?

Python's matcher goes back and tries every other way before it gives up. From the parsed pattern a bound of their number
is worked out: a choice multiplies it, and a repetition of which it is open where it ends adds a degree, the exponent to
which the length of a name is taken. What cannot be bounded is endless. Where the next letter decides, as in
[^.]+\\.[^.]+, there is only one way, however many repetitions there are. Never matches anything itself."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, NamedTuple

# Python's own parser of patterns, so that nothing here is read otherwise than it will be matched.
_parser: Any = import_module("re._parser")
_op: Any = import_module("re._constants")

NAME_CHARACTERS_MAX = 255
# A repetition that can end at no more places than this counts as a choice.
CHOICES_MAX = 8
ASCII = frozenset(range(128))
# Stands for every letter that is not ASCII: two sets with it always meet.
OTHERS = 128
ALL = ASCII | {OTHERS}
NEWLINE = ord("\n")
_CATEGORIES = {
    _op.CATEGORY_DIGIT: frozenset(b"0123456789") | {OTHERS},
    _op.CATEGORY_SPACE: frozenset(b" \t\n\r\f\v\x1c\x1d\x1e\x1f") | {OTHERS},
    _op.CATEGORY_WORD: frozenset(code for code in ASCII if chr(code).isalnum() or chr(code) == "_") | {OTHERS},
}
_NOT_CATEGORIES = {
    _op.CATEGORY_NOT_DIGIT: _op.CATEGORY_DIGIT,
    _op.CATEGORY_NOT_SPACE: _op.CATEGORY_SPACE,
    _op.CATEGORY_NOT_WORD: _op.CATEGORY_WORD,
}
_REPEATS = (_op.MAX_REPEAT, _op.MIN_REPEAT, _op.POSSESSIVE_REPEAT)
Letters = frozenset[int]


class Ways(NamedTuple):
    """`choices` times the length of a name to the power of `degree`; if it `scans`, each way goes along the name."""

    choices: float
    degree: int
    scans: bool = False

    def times(self, other: Ways) -> Ways:
        return Ways(self.choices * other.choices, self.degree + other.degree, self.scans or other.scans)

    def plus(self, other: Ways) -> Ways:
        return Ways(self.choices + other.choices, max(self.degree, other.degree), self.scans or other.scans)

    @property
    def is_one(self) -> bool:
        return self.choices <= 1 and self.degree == 0


ONE = Ways(1, 0)
ENDLESS = Ways(math.inf, 0)


class After(NamedTuple):
    """What may follow: the letters, and whether the match may be over there, so that nothing is tried again."""

    letters: Letters
    is_end: bool = False


def steps_max(pattern: str) -> float:
    """How many ways a name of full length may have to be tried; infinity if there is no bound. The pattern is known to
    compile."""
    tree = _parser.parse(pattern)
    ways = _Cost(tree.state.flags).sequence(list(tree), After(frozenset(), True))
    if math.isinf(ways.choices):
        return math.inf
    degree = ways.degree + ways.scans + (not _is_anchored(list(tree), tree.state.flags))
    return ways.choices * math.comb(NAME_CHARACTERS_MAX + degree, degree)


def _is_anchored(items: list[Any], flags: int) -> bool:
    """Whether it can match at the beginning only; else every place of the name is tried."""
    for op, given in items:
        if op is _op.AT:
            return given is _op.AT_BEGINNING_STRING or (
                given is _op.AT_BEGINNING and not flags & _op.SRE_FLAG_MULTILINE
            )
        if op is _op.SUBPATTERN:
            return _is_anchored(list(given[3]), flags)
        if op is _op.BRANCH:
            return all(_is_anchored(list(branch), flags) for branch in given[1])
        if op not in (_op.ASSERT, _op.ASSERT_NOT):
            return False
    return False


class _Cost:
    def __init__(self, flags: int) -> None:
        self._flags = flags
        self._any = ALL if flags & _op.SRE_FLAG_DOTALL else ALL - {NEWLINE}
        self._folds = bool(flags & _op.SRE_FLAG_IGNORECASE)

    # ---- in how many ways

    def sequence(self, items: list[Any], after: After) -> Ways:
        ways = ONE
        for place, item in enumerate(items):
            ways = ways.times(self._item(item, self._first(items[place + 1 :], after)))
        return ways

    def _item(self, item: Any, after: After) -> Ways:
        op, given = item
        if op in _REPEATS:
            return self._repeat(int(given[0]), given[1], list(given[2]), after)
        if op is _op.SUBPATTERN:
            return self._within(given).sequence(list(given[3]), after)
        if op is _op.ATOMIC_GROUP:
            return self.sequence(list(given), after)
        if op is _op.BRANCH:
            return self._branches([list(branch) for branch in given[1]], after)
        if op is _op.GROUPREF_EXISTS:
            return self._branches([list(given[1]), list(given[2] or ())], after)
        if op in (_op.ASSERT, _op.ASSERT_NOT):
            # Looked at where it stands: a name is gone through once for it, and it is left at its first success.
            return self.sequence(list(given[1]), After(frozenset(), True))
        return ONE

    def _within(self, group: Any) -> _Cost:
        """A group may have flags of its own: (?i:...)."""
        flags = (self._flags | group[1]) & ~group[2]
        return self if flags == self._flags else _Cost(flags)

    def _branches(self, branches: list[list[Any]], after: After) -> Ways:
        ways = [self.sequence(branch, after) for branch in branches]
        begins = [self._first(branch, after) for branch in branches]
        if after.is_end and all(each.is_one for each in ways):
            return ONE
        apart = all(
            not begins[one].is_end and not begins[one].letters & begins[other].letters
            for one in range(len(branches))
            for other in range(len(branches))
            if one != other
        )
        if apart:
            return Ways(
                max(each.choices for each in ways),
                max(each.degree for each in ways),
                any(each.scans for each in ways),
            )
        total = ways[0]
        for each in ways[1:]:
            total = total.plus(each)
        return total

    def _repeat(self, least: int, given_most: Any, body: list[Any], after: After) -> Ways:
        most = math.inf if given_most is _op.MAXREPEAT else int(given_most)
        if most == 0:
            return ONE
        again = self._first(body, After(frozenset()))
        # Behind each turn but the last there may be another one.
        inside = after if most == 1 else After(after.letters | again.letters)
        one_turn = self.sequence(body, inside)
        if not one_turn.is_one:
            if most > CHOICES_MAX:
                return ENDLESS
            return Ways((most + 1) * one_turn.choices**most, one_turn.degree * int(most), one_turn.scans)
        may_be_empty = self._begin_all(body)[1]
        if least > 1 and may_be_empty:
            # Turns that take nothing of the name are bounded by nothing else.
            return Ways(float(least), 0, one_turn.scans) if most == least else ENDLESS
        ends = min(most, NAME_CHARACTERS_MAX) - min(least, NAME_CHARACTERS_MAX)
        # A turn that takes nothing can be made or left out, whichever letter comes.
        decided = not may_be_empty and not again.is_end and not after.is_end and not again.letters & after.letters
        if ends == 0 or after.is_end:
            return one_turn
        if decided:
            return Ways(1, 0, one_turn.scans or ends >= CHOICES_MAX)
        return Ways(ends + 1, 0, one_turn.scans) if ends < CHOICES_MAX else Ways(1, 1, one_turn.scans)

    # ---- what it can begin with

    def _first(self, items: list[Any], after: After) -> After:
        """The letters that these items, and if they may be empty what follows them, begin with."""
        letters: Letters = frozenset()
        for op, given in items:
            if op is _op.AT and given in (_op.AT_END, _op.AT_END_STRING):
                # Nothing else can follow but the end, or the newline before it.
                return After(letters | {NEWLINE})
            if op in (_op.AT, _op.ASSERT, _op.ASSERT_NOT):
                continue
            begins, may_be_empty = self._begin(op, given)
            letters |= begins
            if not may_be_empty:
                return After(letters)
        return After(letters | after.letters, after.is_end and not letters) if items else after

    def _begin(self, op: Any, given: Any) -> tuple[Letters, bool]:
        if op in (_op.LITERAL, _op.NOT_LITERAL, _op.IN, _op.ANY):
            return self._letters(op, given), False
        if op in _REPEATS:
            letters, empty = self._begin_all(list(given[2]))
            return letters, empty or given[0] == 0
        if op is _op.SUBPATTERN:
            return self._within(given)._begin_all(list(given[3]))
        if op is _op.ATOMIC_GROUP:
            return self._begin_all(list(given))
        if op is _op.BRANCH:
            begins = [self._begin_all(list(branch)) for branch in given[1]]
            return frozenset().union(*(each for each, _ in begins)), any(empty for _, empty in begins)
        # What a reference stands for is known only then.
        return ALL, True

    def _begin_all(self, items: list[Any]) -> tuple[Letters, bool]:
        letters: Letters = frozenset()
        for op, given in items:
            if op in (_op.AT, _op.ASSERT, _op.ASSERT_NOT):
                continue
            begins, empty = self._begin(op, given)
            letters |= begins
            if not empty:
                return letters, False
        return letters, True

    # ---- sets of letters

    def _letters(self, op: Any, given: Any) -> Letters:
        if op is _op.ANY:
            return self._any
        if op is _op.LITERAL:
            return self._folded(_code(given))
        if op is _op.NOT_LITERAL:
            return ALL - (self._folded(_code(given)) - {OTHERS})
        found: Letters = frozenset()
        negated = False
        for kind, value in given:
            if kind is _op.NEGATE:
                negated = True
            elif kind is _op.LITERAL:
                found |= self._folded(_code(value))
            elif kind is _op.RANGE:
                for code in range(value[0], min(value[1], OTHERS) + 1):
                    found |= self._folded(code)
                if value[1] >= OTHERS:
                    found |= {OTHERS}
            elif value in _CATEGORIES:
                found |= _CATEGORIES[value]
            else:
                found |= (ALL - _CATEGORIES[_NOT_CATEGORIES[value]]) | {OTHERS}
        return (ALL - found) | {OTHERS} if negated else found

    def _folded(self, code: int) -> Letters:
        if code >= OTHERS:
            return frozenset({OTHERS}) if not self._folds else ALL
        if not self._folds:
            return frozenset({code})
        letter = chr(code)
        # Some letters that are not ASCII are the same as one that is, if case counts for nothing.
        return frozenset({ord(letter.lower()), ord(letter.upper()), OTHERS})


def _code(code: int) -> int:
    return code if code < OTHERS else OTHERS
