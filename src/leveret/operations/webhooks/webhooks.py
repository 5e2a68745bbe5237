"""Posts alerts to webhooks: signed, retried with longer and longer pauses, and without blocking the broker.

Each address has a line of its own, of bounded length, and a task that works it off: a dead endpoint holds up no other.
What waits is kept in a file, so that the next start goes on with it, whether the broker was stopped or killed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from leveret.operations.reprocess.spec import Alert
from leveret.operations.webhooks.templates import AUTO, Sender, payload, plain, template_for
from leveret.operations.webhooks.waiting_file import Waiting, WaitingFile, address_digest
from leveret.runtime.https import FetchError, post
from leveret.runtime.log import get_logger
from leveret.runtime.secret import Secret

log = get_logger(__name__)

PENDING_MAX: Final = 256
PAUSE_S_MAX: Final = 300.0
# How long the last tries of a stopping broker may take.
STOP_DEADLINE_S: Final = 2.0
# Answers after which another try is of use: the others say that the request itself is wrong.
RETRIED: Final = frozenset((408, 425, 429))

SIGNATURE, TIMESTAMP, ID = "X-Leveret-Signature", "X-Leveret-Timestamp", "X-Leveret-Id"

Post = Callable[[str, str, bytes, dict[str, str], float], Awaitable[None]]


@dataclass(frozen=True)
class WebhookOptions:
    """Addresses may hold tokens, so they are secret. `attempts_max` tries, the pauses between them doubling from
    `pause_s` on."""

    urls: tuple[Secret, ...] = ()
    template: str = AUTO
    ca: str = ""
    secret: Secret = field(default_factory=Secret)
    attempts_max: int = 10
    pause_s: float = 1.0
    deadline_s: float = 10.0


@dataclass
class Outcomes:
    """Of all addresses, since the start."""

    delivered_total: int = 0
    # Tries that failed and are repeated.
    retried_total: int = 0
    # Alerts that were given up: refused, or tried as often as may be.
    failed_total: int = 0
    # Alerts for which there was no room in the line, or whose address is no longer set.
    dropped_total: int = 0
    # Alerts that waited when the broker ended before, and wait on.
    restored_total: int = 0


class Webhooks:
    """`name` gives a new name each time, `wall` seconds since 1970; `file` keeps what waits, None if nothing does."""

    def __init__(
        self, name: Callable[[], str], wall: Callable[[], float], post: Post = post, file: Path | None = None
    ) -> None:
        self._name = name
        self._wall = wall
        self._post = post
        self._lines: list[Line] = []
        self._file = None if file is None else WaitingFile(file, self._snapshot)
        self.outcomes = Outcomes()
        self.sender = Sender("", "")

    @property
    def pending(self) -> int:
        return sum(len(line) for line in self._lines)

    def start(self, options: WebhookOptions, sender: Sender) -> None:
        """On a running loop. What still waits for an address that stays is sent under the new options. Raises
        StartupError."""
        self.sender = sender
        before = {line.url: line for line in self._lines}
        kept: dict[str, list[Waiting]] = {}
        if self._file is not None and options.urls and not self._file.is_open:
            kept = self._file.open()
        self._lines = []
        for url in dict.fromkeys(url.reveal() for url in options.urls):
            line = Line(url, options, sender, self.outcomes, self._post, self._wall, self._changed)
            old = before.pop(url, None)
            if old is not None:
                line.adopt(old)
            line.restore(kept.pop(address_digest(url), []))
            self._lines.append(line)
            line.start()
        for gone in before.values():
            gone.cancel()
        forgotten = sum(map(len, before.values())) + sum(map(len, kept.values()))
        if forgotten:
            self.outcomes.dropped_total += forgotten
            log.error("alerts are not sent: their address is no longer set", count=forgotten)
            self._changed()

    def send(self, alert: Alert) -> None:
        """Never waits."""
        if self._lines:
            waiting = Waiting(self._name(), plain(alert))
            for line in self._lines:
                line.add(waiting)

    async def stop(self) -> None:
        await asyncio.gather(*(line.stop() for line in self._lines))
        kept = False if self._file is None else await self._file.close()
        for line in self._lines:
            line.name_undelivered(kept)
        self._lines = []

    def _changed(self) -> None:
        if self._file is not None:
            self._file.changed()

    def _snapshot(self) -> Iterable[tuple[str, Iterable[Waiting]]]:
        return [(line.url, line.waiting) for line in self._lines]


class Line:
    """What waits for one address."""

    def __init__(
        self,
        url: str,
        options: WebhookOptions,
        sender: Sender,
        outcomes: Outcomes,
        post: Post,
        wall: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self.url = url
        # The path may be a token.
        self.shown = urlsplit(url).hostname or ""
        self._options = options
        self._sender = sender
        self._outcomes = outcomes
        self._post = post
        self._wall = wall
        self._changed = changed
        self._template = template_for(url, options.template)
        # The oldest first; that one is being tried.
        self.waiting: deque[Waiting] = deque()
        self._signal = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self.waiting)

    def adopt(self, before: Line) -> None:
        before.cancel()
        self.waiting = before.waiting
        self._signal.set()

    def restore(self, kept: list[Waiting]) -> None:
        """What waited for this address when the broker ended."""
        self.waiting.extend(kept)
        self._outcomes.restored_total += len(kept)
        if kept:
            log.info("alerts of an earlier run wait to be sent", to=self.shown, count=len(kept))
            self._signal.set()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def add(self, waiting: Waiting) -> None:
        if len(self.waiting) >= PENDING_MAX:
            self._outcomes.dropped_total += 1
            log.error("an alert is not sent: too many wait", to=self.shown, queue=waiting.alert.queue)
            return
        self.waiting.append(waiting)
        self._changed()
        self._signal.set()

    async def stop(self) -> None:
        """Tries what waits once more, within a moment."""
        self.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_DEADLINE_S):
                while self.waiting:
                    try:
                        await self._try(self.waiting[0])
                    except FetchError:
                        break
                    self.waiting.popleft()
                    self._changed()
                    self._outcomes.delivered_total += 1

    def name_undelivered(self, kept: bool) -> None:
        then = "the next start sends it" if kept else "it is not sent any more"
        for waiting in self.waiting:
            alert = waiting.alert
            log.error(
                f"an alert was not delivered before the stop; {then}", to=self.shown, queue=alert.queue, kind=alert.kind
            )

    # ---- its task

    async def _work(self) -> None:
        while True:
            self._signal.clear()
            while self.waiting:
                await self._deliver(self.waiting[0])
                self.waiting.popleft()
                self._changed()
            await self._signal.wait()

    async def _deliver(self, waiting: Waiting) -> None:
        """Until it is taken, or given up."""
        options = self._options
        pause_s = options.pause_s
        for attempt in range(1, options.attempts_max + 1):
            try:
                await self._try(waiting)
            except FetchError as error:
                final = error.status and error.status < 500 and error.status not in RETRIED
                if final or attempt == options.attempts_max:
                    self._outcomes.failed_total += 1
                    log.error(
                        "an alert cannot be delivered", to=self.shown, queue=waiting.alert.queue, error=str(error),
                        attempts=attempt,
                    )  # fmt: skip
                    return
                self._outcomes.retried_total += 1
                log.warning("an alert is tried again", to=self.shown, error=str(error), pause_s=pause_s)
                await asyncio.sleep(min(max(pause_s, error.retry_after_s), PAUSE_S_MAX))
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
            else:
                self._outcomes.delivered_total += 1
                return

    async def _try(self, waiting: Waiting) -> None:
        options = self._options
        body = payload(self._template, waiting.alert, waiting.id, self._sender)
        stamp = str(int(self._wall()))
        headers = {"Content-Type": "application/json", "User-Agent": "leveret", ID: waiting.id, TIMESTAMP: stamp}
        if options.secret:
            headers[SIGNATURE] = signature(options.secret, stamp, body)
        await self._post(self.url, options.ca, body, headers, options.deadline_s)


def signature(secret: Secret, stamp: str, body: bytes) -> str:
    """Over the moment too, so that what was recorded cannot be sent again later."""
    digest = hmac.new(secret.reveal().encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"
