"""Delivery tags of one channel whose messages timed out and went back: an ack that still comes for one is excused.

Each is excused once, and only the newest are remembered: 8 octets each, sorted. Called by the channel only, never on
the way of a message that was acknowledged in time."""

from array import array
from bisect import bisect_left, bisect_right

# An ack that comes later than this many timed-out deliveries is refused like any unknown tag.
LATE_TAGS_MAX = 65_536
# So many more may gather before the oldest are forgotten, all at once.
SLACK = 8_192


class LateTags:
    __slots__ = ("excused", "tags")

    def __init__(self):
        self.tags = array("Q")
        # Excused in the open transaction: a rollback makes those acks undone, so they may come again.
        self.excused = []

    def add(self, tag):
        """Timed out; mostly in order, but a longer timeout is met later than a shorter one of a higher tag."""
        if len(self.tags) == 0 or tag > self.tags[len(self.tags) - 1]:
            self.tags.append(tag)
        else:
            self.tags.insert(bisect_left(self.tags, tag), tag)
        forget_oldest(self.tags)

    def has(self, tag):
        at = bisect_left(self.tags, tag)
        return at < len(self.tags) and self.tags[at] == tag

    def excuse(self, tag, multiple, in_transaction):
        """The client settles this tag, or all up to it: forgets those that timed out and says how many they were."""
        end = bisect_right(self.tags, tag)
        start = 0
        if not multiple:
            start = bisect_left(self.tags, tag)
        if in_transaction:
            self.excused.extend(self.tags[start:end])
            forget_oldest(self.excused)
        del self.tags[start:end]
        return end - start

    def commit(self):
        self.excused = []

    def rollback(self):
        for tag in self.excused:
            self.add(tag)
        self.excused = []


def forget_oldest(tags):
    if len(tags) > LATE_TAGS_MAX + SLACK:
        del tags[: len(tags) - LATE_TAGS_MAX]
