"""A tap: shows what is published to an exchange, or arrives in a queue, to people who watch.

Costs one comparison a message where nobody watches. Where somebody does it never holds anything up: it takes what its
allowance and its small buffer permit, and only counts the rest. The allowance is given, and the buffer emptied, a few
times a second by operations.taps."""

# Keys whose answer is remembered.
KNOWN_MAX = 1024


class Tap:
    """`wanted` is called with a routing key that was not seen before; None to take all keys. `following` is the next
    tap at the same place."""

    def __init__(self, wanted, truncate, count_max, bytes_max):
        self.wanted = wanted
        self.known = {}
        # Octets of a body that are kept, messages and octets that the buffer has at most.
        self.truncate = truncate
        self.count_max = count_max
        self.bytes_max = bytes_max
        self.seen = []
        self.seen_bytes = 0
        # How many more it may take before somebody looks again.
        self.allowance = 0
        self.matched_total = 0
        self.missed_total = 0
        self.following = None

    def see(self, message):
        if self.following is not None:
            self.following.see(message)
        if self.wanted is not None and not self.wants(message):
            return 0
        self.matched_total += 1
        if self.allowance <= 0 or len(self.seen) >= self.count_max or self.seen_bytes >= self.bytes_max:
            self.missed_total += 1
            return 0
        body = message.body if message.body_size <= self.truncate else message.body[: self.truncate]
        self.allowance -= 1
        # Not the message itself: its whole body would stay in memory with it.
        self.seen.append((message.exchange, message.routing_key, message.properties, body, message.body_size))
        self.seen_bytes += len(body) + len(message.properties.raw)
        return 0

    def wants(self, message):
        key = message.routing_key
        answer = self.known.get(key)
        if answer is None:
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            answer = self.known[key] = bool(self.wanted(key))
        return answer

    def take(self, allowance):
        """What was seen since the last time, as (exchange, routing key, properties, body, whole size); from now on it
        may take so many more."""
        seen = self.seen
        self.seen = []
        self.seen_bytes = 0
        self.allowance = allowance
        return seen


def with_tap(first: "Tap | None", tap):
    """The taps of a place with one more."""
    tap.following = first
    return tap


def without_tap(first, tap):
    """The taps of a place without this one; None if it was the last."""
    if first is tap:
        rest = tap.following
        tap.following = None
        return rest
    at = first
    while at is not None and at.following is not tap:
        at = at.following
    if at is not None:
        at.following = tap.following
        tap.following = None
    return first
