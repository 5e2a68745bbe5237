"""The keys that a queue or an exchange has seen lately: a message whose key is among them is a duplicate.

Exact within its window, which is bounded by count and, if asked for, by time. A key is kept as a digest of 16 octets
(BLAKE2b), and in the log as a note in the same batch as the message that brought it, so both survive a crash or
neither does. Keys whose notes are in a segment that is about to go are noted again."""

from hashlib import blake2b

from leveret.core.log.batch import NoteSource

DIGEST_BYTES = 16
KEY_HEADER = "x-deduplication-header"
TTL_HEADER = "x-cache-ttl"
OWN_TTL_BITS = 24
OWN_TTL_MASK = (1 << 24) - 1
OWN_TTL_UNIT_MS = 100
# 2020: the milliseconds since then leave room for the other bits of a value.
EPOCH_MS = 1577836800000


def digest_of(properties):
    """The digest of a message's key: its header of that name, else its message id; None if it has neither."""
    key = properties.headers().get(KEY_HEADER)
    if key is None:
        key = properties.message_id
        if key is None:
            return None
    octets = key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogateescape")
    return blake2b(octets, digest_size=DIGEST_BYTES).digest()


def own_ttl_of(properties):
    """How long the message itself wants its key to be remembered, in milliseconds; 0 if it does not say."""
    value = properties.headers().get(TTL_HEADER)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def make_value(seen_ms, own):
    """What the window keeps of a key that was seen at this moment."""
    return ((seen_ms - EPOCH_MS if seen_ms > EPOCH_MS else 0) << OWN_TTL_BITS) | own


def seen_at(value):
    return (value >> OWN_TTL_BITS) + EPOCH_MS


class DedupWindow(NoteSource):
    """`size_max` keys at most, each for `ttl_ms` at most (0 for as long as there is room). Without a journal nothing of
    it survives."""

    def __init__(self, id, journal, size_max, ttl_ms):
        NoteSource.__init__(self, id)
        self.journal = journal
        self.size_max = size_max
        self.ttl_ms = ttl_ms
        # Digest -> when it was seen in milliseconds since 2020, above 24 bits with its own time to live in tenths of a
        # second, 0 if it has none. Oldest first.
        self.keys = {}
        # Segment -> the digests that are noted there; and those that are still to be noted.
        self.noted = {}
        self.unnoted = []
        self.duplicates_total = 0

    def is_over(self, value, now):
        """Whether this value's time is over."""
        ttl_ms = (value & OWN_TTL_MASK) * OWN_TTL_UNIT_MS
        if ttl_ms == 0:
            ttl_ms = self.ttl_ms
        return ttl_ms > 0 and seen_at(value) + ttl_ms <= now

    def knows(self, digest, now):
        """Whether the key was seen; nothing is counted."""
        value = self.keys.get(digest)
        return value is not None and not self.is_over(value, now)

    def has(self, digest, now):
        """Whether the key was seen; then it is a duplicate, and counted as one."""
        value = self.keys.get(digest)
        if value is None:
            return False
        if self.is_over(value, now):
            del self.keys[digest]
            return False
        self.duplicates_total += 1
        return True

    def remember(self, digest, now, own_ttl_ms, persistent):
        """The message with this key was taken. It may wish for a time to live of its own, else 0. The key survives if
        the message does: one that is lost with a restart may be sent again."""
        own = min((own_ttl_ms + OWN_TTL_UNIT_MS - 1) // OWN_TTL_UNIT_MS, OWN_TTL_MASK)
        self.keys[digest] = make_value(now, own)
        self.forget_old(now)
        if self.journal is not None and persistent:
            self.unnoted.append(digest)
            self.journal.touch(self)
        return 0

    def resize(self, size_max, ttl_ms):
        """A policy has changed. What is too much or too old is forgotten with the next key."""
        self.size_max = size_max
        self.ttl_ms = ttl_ms

    def forget_old(self, now):
        """Drops the oldest beyond the limit, and those whose time is over."""
        while self.keys:
            oldest = next(iter(self.keys))
            if len(self.keys) <= self.size_max and not self.is_over(self.keys[oldest], now):
                break
            del self.keys[oldest]
        return 0

    def write_notes(self):
        self.touched = False
        if self.closed or not self.unnoted:
            return 0
        here = self.noted.setdefault(self.journal.segment.id, [])
        for digest in self.unnoted:
            value = self.keys.get(digest)
            if value is not None:
                # Rounded up: a key is never forgotten too early.
                seconds = (seen_at(value) + 999) // 1000
                self.journal.add_key(self, digest, seconds, value & OWN_TTL_MASK)
                here.append(digest)
        self.unnoted = []
        return 0

    def note_again(self, segment):
        """The notes in this segment are about to be deleted with it. Whether any was still needed."""
        alive = [digest for digest in self.noted.pop(segment, ()) if digest in self.keys]
        if not alive or self.closed:
            return False
        self.unnoted.extend(alive)
        self.journal.touch(self)
        return True

    def restore(self, found, now):
        """What recovery found: (second, digest, segment, own time to live) each. The segments with notes of it."""
        for seconds, digest, segment, own in sorted(found, key=second_of):
            value = make_value(seconds * 1000, own)
            if not self.is_over(value, now):
                # One that was forgotten and seen again is as young as the last time.
                self.keys.pop(digest, None)
                self.keys[digest] = value
                self.noted.setdefault(segment, []).append(digest)
        self.forget_old(now)
        return set(self.noted)

    def close(self):
        """What it belongs to is deleted."""
        self.closed = True
        if self.journal is not None and self.journal.segment is not None:
            self.journal.segment.noted_by.discard(self)
        self.keys = {}
        self.noted = {}
        self.unnoted = []


def second_of(note):
    return note[0]
