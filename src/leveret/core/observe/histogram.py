"""How values are spread: how many were at most this large, and their sum.

Counts whole numbers (octets, milliseconds, microseconds) in C; whoever shows them makes them seconds. Never forgets:
what it says only grows."""

import cython

if not cython.compiled:
    BOUNDS_MAX = 16


class Histogram:
    """`bounds` are the largest values of each bucket but the last, in ascending order."""

    def __init__(self, bounds):
        if not 0 < len(bounds) <= BOUNDS_MAX:
            raise ValueError(f"a histogram has 1 to {BOUNDS_MAX} bounds, not {len(bounds)}")
        self.bounds = tuple(bounds)
        self.sum = 0
        self.size = len(bounds)
        if not cython.compiled:
            self.limits = [0] * BOUNDS_MAX
            self.tallies = [0] * (BOUNDS_MAX + 1)
        for i, bound in enumerate(bounds):
            self.limits[i] = bound

    def note(self, value):
        # Most values are small, and alike: the first comparisons end it.
        i = 0
        while i < self.size and value > self.limits[i]:
            i += 1
        self.tallies[i] += 1
        self.sum += value

    def note_many(self, value, times):
        """The same value so many times."""
        i = 0
        while i < self.size and value > self.limits[i]:
            i += 1
        self.tallies[i] += times
        self.sum += value * times

    def counts(self):
        """How many values each bucket has, the one above all bounds last."""
        return [self.tallies[i] for i in range(self.size + 1)]

    @property
    def count(self):
        return sum(self.counts())
