"""Patterns that operators write to choose queues and exchanges by name: compiled, or refused.

A pattern runs against every name of a virtual host, on the broker's one thread, and Python's matcher tries every way to
match before it gives up. So a pattern has a length, and one that might have to try too many ways is refused
(catalog/pattern_cost.py): (a+)+ can be written as a+, and of .* there may be a few. What was let through takes no more
than some hundredths of a second for the most unlucky of names."""

from __future__ import annotations

import math
import re
import warnings

from leveret.catalog.pattern_cost import steps_max

PATTERN_CHARACTERS_MAX = 1024
# What three repetitions that can end anywhere come to, or two if the pattern is not bound to the beginning by ^.
STEPS_MAX = 3_000_000


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Raises ValueError with what is wrong."""
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"it is longer than {PATTERN_CHARACTERS_MAX} characters")
    try:
        with warnings.catch_warnings():
            # What Python warns of, such as [[:alpha:]], would not mean what its writer thinks.
            warnings.simplefilter("error")
            compiled = re.compile(pattern)
        steps = steps_max(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at position {error.pos}"
        raise ValueError(f"{error.msg}{place}") from None
    except (Warning, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if math.isinf(steps):
        raise ValueError("a repetition or a choice inside a repetition can take forever")
    if steps > STEPS_MAX:
        raise ValueError("too many repetitions or choices in a row, such as .*, can take very long")
    return compiled
