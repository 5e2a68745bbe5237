"""What a queue was told to do with its messages beyond keeping them in order: how long they live, how many fit, what
becomes of those that do not.

Only numbers and names: made by queues/ from arguments and policies, replaced as a whole when those change, read by the
queue at every step. -1 is no limit."""

import cython

if not cython.compiled:
    from leveret.core.queue.office import DELIVERY_LIMIT, REJECTED

    DROP_HEAD = 0
    REJECT = 1
    REJECT_AND_BURY = 2

# Older changes of the time to live than these are forgotten: what arrived before them does not expire.
ERAS_MAX = 16


class Rules:
    __slots__ = (
        "buries",
        "bytes_max",
        "dead_letter_exchange",
        "dead_letter_key",
        "delivery_limit",
        "eras",
        "length_max",
        "overflow",
        "parking_lot",
        "plain",
        "retries",
        "retry_delays",
        "ttl_ms",
    )

    def __init__(
        self,
        ttl_ms=-1,
        length_max=-1,
        bytes_max=-1,
        overflow=DROP_HEAD,
        delivery_limit=-1,
        dead_letter_exchange=None,
        dead_letter_key=None,
        retry_delays=(),
        parking_lot=None,
    ):
        self.ttl_ms = ttl_ms
        # (since when, time to live) if that was not always the same, newest first: what is in a queue keeps its own.
        self.eras = ()
        self.length_max = length_max
        self.bytes_max = bytes_max
        # What happens when it is full: the oldest goes, or the newest is refused.
        self.overflow = overflow
        self.delivery_limit = delivery_limit
        # Names as octets; the exchange may be the default one, whose name is empty.
        self.dead_letter_exchange = dead_letter_exchange
        self.dead_letter_key = dead_letter_key
        # What failed comes back after the first of these (milliseconds), then the second, and at last goes to the lot.
        self.retry_delays = retry_delays
        self.parking_lot = parking_lot
        self.buries = dead_letter_exchange is not None
        self.retries = bool(retry_delays) or parking_lot is not None
        self.plain = (
            ttl_ms < 0
            and length_max < 0
            and bytes_max < 0
            and delivery_limit < 0
            and not self.buries
            and not self.retries
        )

    def succeed(self, old, since):
        """Takes over from other rules: the time to live counts for what arrives from this moment on."""
        if self.ttl_ms == old.ttl_ms:
            self.eras = old.eras
        elif since > 0:
            earlier = old.eras if old.eras else ((0, old.ttl_ms),)
            self.eras = ((since, self.ttl_ms), *earlier)[:ERAS_MAX]
        return 0

    def ttl_at(self, stamp):
        """The time to live of what arrived at this moment."""
        if not self.eras:
            return self.ttl_ms
        for since, ttl_ms in self.eras:
            if stamp >= since:
                return ttl_ms
        return -1

    def expires_some(self):
        """Whether anything may have a time to live by these rules."""
        return self.ttl_ms >= 0 or len(self.eras) > 0

    def carries(self, reason):
        """Whether what leaves the queue for this reason goes on to somewhere."""
        return self.buries or (self.retries and (reason == REJECTED or reason == DELIVERY_LIMIT))
