"""The descriptor budget: how many file descriptors of the process each user may hold.

Storage's part is set aside before sockets get theirs, so that no number of connections keeps the store from opening a
file; and every kind of socket has a share of its own, so that idle HTTP clients cannot lock out AMQP, nor AMQP the
operators. The limit is read again while the node runs, because an operator can change it from outside (prlimit).
Opens and closes nothing itself. One budget belongs to one node; listeners and the store ask it."""

from __future__ import annotations

import errno
from collections.abc import Callable

from leveret.errors import StartupError
from leveret.runtime.process import descriptors_max, descriptors_used

# What a node holds beside storage's caches and accepted sockets: listeners, event descriptors, the segments and the
# catalog that it writes to; and what it opens for a moment (certificates, the audit log, /proc).
OWN = 28
# Storage's part: a quarter of the rest, within these.
STORAGE_MIN = 14
STORAGE_MAX = 512
# The fewest descriptors for sockets that a start accepts: one of every kind, and a second AMQP client.
SOCKETS_MIN = 5
# Parts of the descriptors for sockets, and the most that each kind is ever given.
HTTP_PART, HTTP_MAX = 4, 2000
METRICS_PART, METRICS_MAX = 16, 200
LOCAL_PART, LOCAL_MAX = 16, 64
# With fewer than this the start says how many clients there is room for.
COMFORTABLE = 1024
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Share:
    """The sockets of one kind: how many there may be, how many there are. Whoever accepts takes, whoever closes gives
    back."""

    __slots__ = ("limit", "name", "refused_total", "used")

    def __init__(self, name: str, limit: int = 0) -> None:
        self.name = name
        self.limit = limit
        self.used = 0
        # How often a peer had to wait or was turned away because the share was used up.
        self.refused_total = 0

    @property
    def room(self) -> int:
        return max(0, self.limit - self.used)


class DescriptorBudget:
    """`held` is what the process had open before the node was made: a program that embeds a broker has its own."""

    def __init__(self, limit: Callable[[], int] = descriptors_max, held: int | None = None) -> None:
        self._limit_now = limit
        self._held = descriptors_used() if held is None else held
        self.limit = 0
        self.amqp = Share("amqp")
        self.http = Share("http")
        # The unix socket of the command line.
        self.local = Share("local")
        self.metrics = Share("metrics")
        self.storage = 0
        # How storage's part is divided; a quarter is left for what it opens for a moment.
        self.log_readers = 0
        self.stream_readers = 0
        self.stream_writers = 0
        self.refresh()

    @property
    def shares(self) -> tuple[Share, ...]:
        return self.amqp, self.http, self.local, self.metrics

    @property
    def minimum(self) -> int:
        """The lowest limit with which a node is of use."""
        return self._held + OWN + STORAGE_MIN + SOCKETS_MIN

    def require_enough(self) -> None:
        """Raises StartupError if the limit cannot work."""
        if self.limit < self.minimum:
            raise StartupError(
                f"this process may open {self.limit} file descriptors and needs at least {self.minimum}, one more for "
                "every further connection; raise the limit with `ulimit -n`, LimitNOFILE= of the systemd service, or "
                "the container's ulimits"
            )

    def refresh(self) -> bool:
        """Reads the limit again; true if it has changed. What is open stays open; new shares hold for what comes."""
        limit = self._limit_now()
        if limit == self.limit:
            return False
        self.limit = limit
        rest = max(0, limit - self._held - OWN)
        self.storage = storage = min(max(rest // 4, STORAGE_MIN), STORAGE_MAX)
        self.log_readers = max(2, storage // 8)
        self.stream_readers = max(2, storage // 8)
        self.stream_writers = max(4, storage // 2)
        sockets = max(0, rest - storage)
        self.metrics.limit = min(max(1, sockets // METRICS_PART), METRICS_MAX)
        self.local.limit = min(max(1, sockets // LOCAL_PART), LOCAL_MAX)
        self.http.limit = min(max(1, sockets // HTTP_PART), HTTP_MAX)
        self.amqp.limit = max(0, sockets - self.metrics.limit - self.local.limit - self.http.limit)
        return True
