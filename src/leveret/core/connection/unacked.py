"""What a channel has delivered and its client has not settled yet, in order of delivery tag.

A list sorted by tag with holes where single acks took something out. Holes are squeezed out before they outnumber
what is left, so one message kept for days costs nothing while millions pass it by. Called by the channel only."""

HOLES_MIN = 64
# What one step of paging looks at.
LOOKED_AT_MAX = 65536


def tag_of(entry):
    return entry.tag


class Unacked:
    __slots__ = ("count", "head", "paged", "slots")

    def __init__(self):
        self.slots = []
        # Everything below this index is a hole.
        self.head = 0
        self.count = 0
        # Bodies below this index were let go when memory was short.
        self.paged = 0

    def add(self, entry):
        self.slots.append(entry)
        self.count += 1
        return 0

    def find(self, tag):
        """The index of this tag, or -1. Where nothing is missing in between, the first guess is right."""
        if self.count == 0:
            return -1
        while self.slots[self.head] is None:
            self.head += 1
        first = self.slots[self.head]
        if tag < first.tag:
            return -1
        # Tags grow by at least one a slot, so the tag cannot stand later than this.
        high = len(self.slots) - 1
        distance = tag - first.tag
        room = len(self.slots) - self.head
        if distance < room:
            high = self.head + distance
        probe = self.slots[high]
        if probe is not None and probe.tag == tag:
            return high
        low = self.head
        while low <= high:
            mid = (low + high) >> 1
            at = mid
            while at > low and self.slots[at] is None:
                at -= 1
            probe = self.slots[at]
            if probe is None or probe.tag < tag:
                low = mid + 1
            elif probe.tag == tag:
                return at
            else:
                high = at - 1
        return -1

    def take(self, tag):
        """Takes out the entry with this very tag, or None."""
        at = self.find(tag)
        if at < 0:
            return None
        entry = self.slots[at]
        self.slots[at] = None
        self.count -= 1
        self.settle_down()
        return entry

    def take_first(self, tag_max):
        """Takes out the oldest entry if its tag is not above tag_max, or None."""
        if self.count == 0:
            return None
        while self.slots[self.head] is None:
            self.head += 1
        entry = self.slots[self.head]
        if entry.tag > tag_max:
            return None
        self.slots[self.head] = None
        self.head += 1
        self.count -= 1
        self.settle_down()
        return entry

    def index_above(self, tag):
        """The index of the oldest entry whose tag is above this one; the number of slots if there is none."""
        low = self.head
        high = len(self.slots)
        # Entries below `low` are not above the tag, those from `high` on are.
        while low < high:
            mid = (low + high) >> 1
            at = mid
            while at < high and self.slots[at] is None:
                at += 1
            if at < high:
                probe = self.slots[at]
                if probe.tag <= tag:
                    low = at + 1
                    continue
            high = mid
        while low < len(self.slots) and self.slots[low] is None:
            low += 1
        return low

    def first_above(self, tag):
        """The lowest outstanding tag above this one, or 0 if there is none."""
        at = self.index_above(tag)
        if at == len(self.slots):
            return 0
        probe = self.slots[at]
        return probe.tag

    def between(self, tag, tag_max):
        """Everything outstanding above the one tag and not above the other, in order; it stays where it is."""
        found = []
        for at in range(self.index_above(tag), len(self.slots)):
            probe = self.slots[at]
            if probe is None:
                continue
            if probe.tag > tag_max:
                break
            found.append(probe)
        return found

    def page_out(self, bytes_max, tag_max):
        """Memory is short: lets bodies of messages go, oldest first, but none with a tag above this one. How many
        octets that frees. Goes on where it stopped the last time."""
        freed = 0
        at = max(self.paged, self.head)
        end = min(len(self.slots), at + LOOKED_AT_MAX)
        while at < end and freed < bytes_max:
            entry = self.slots[at]
            if entry is not None:
                if entry.tag > tag_max:
                    break
                holder = entry.holder
                queue = holder.queue
                freed += queue.page_entry(entry)
            at += 1
        self.paged = at
        return freed

    def settle_down(self):
        """Squeezes the holes out once there are more of them than entries."""
        if len(self.slots) - self.count > self.count + HOLES_MIN:
            self.slots = [entry for entry in self.slots[self.head :] if entry is not None]
            self.head = 0
            self.paged = 0
        return 0

    def restore(self, entries):
        """Puts entries back that were taken out, as a rollback does."""
        self.slots = sorted(self.entries() + entries, key=tag_of)
        self.head = 0
        self.paged = 0
        self.count = len(self.slots)
        return 0

    def entries(self):
        return [entry for entry in self.slots[self.head :] if entry is not None]
