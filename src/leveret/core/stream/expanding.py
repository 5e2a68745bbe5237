"""How much of what the stream protocol compressed is taken apart in a turn, for all consumers of a node together; and
what they share of it.

A consumer asks before every message. When the turn's budget is spent, or its own share of that, it waits here and goes
on in the next turn, one after the other. A pure machine; the office calls `go_on`."""

from collections import OrderedDict

from leveret.core.stream.entries import Expansion

# Messages and steps of decompression in a turn: about five milliseconds. One consumer does a part of that at a time.
STEPS_A_TURN = 192
STEPS_AT_A_TIME = 32
# Sub-batches that are kept for readers who follow.
SHARED_MAX = 16


class Expansions:
    def __init__(self, office):
        self._office = office
        # By the stream's id and the entry's offset, the last that was used at the end.
        self._shared = OrderedDict()
        self._left = STEPS_A_TURN
        # Consumers that go on in the next turn, in order.
        self._waiting = {}
        self.steps_total = 0
        self.expanded_total = 0

    def find(self, stream_id, data, at, offset):
        """What becomes of the entry at data[at], for a reader that goes on with this offset."""
        key = (stream_id, int.from_bytes(data[at + 8 : at + 16], "big"))
        found = self._shared.pop(key, None)
        if found is None or found.base > max(offset - found.first, 0):
            # None has it, or those who have are too far ahead.
            found = Expansion(data, at)
            self.expanded_total += 1
        self._shared[key] = found
        if len(self._shared) > SHARED_MAX:
            self._shared.popitem(last=False)
        return found

    def is_waiting(self, consumer):
        return consumer in self._waiting

    def spend(self, consumer, steps):
        """Whether the consumer, which has done so many steps since it began, may do another now; else it waits."""
        if steps >= STEPS_AT_A_TIME or self._left <= 0:
            if not self._waiting:
                self._office.go_on_later(self)
            self._waiting[consumer] = True
            return False
        self._left -= 1
        self.steps_total += 1
        return True

    def go_on(self):
        """A new turn."""
        self._left = STEPS_A_TURN
        waiting = self._waiting
        while waiting and self._left > 0:
            consumer = next(iter(waiting))
            del waiting[consumer]
            # If it has more to do, it waits behind the others.
            consumer.transport()
        if waiting:
            self._office.go_on_later(self)


def expansions_of(office):
    """Those of the node, made when the first compressed entry is read."""
    if office.expansions is None:
        office.expansions = Expansions(office)
    return office.expansions
