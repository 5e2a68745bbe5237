"""Alerts about dead letters: remembered for the API, counted for metrics, noted in the audit log, handed to webhooks.

Adding one never waits. Called by the reprocessor; read by the API and the metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from leveret.auth.audit import DONE, FAILED, Actor
from leveret.broker.broker import Broker
from leveret.operations.reprocess.spec import ALERT_KINDS, ARCHIVED, Alert
from leveret.runtime.log import get_logger

log = get_logger(__name__)

REMEMBERED_MAX: Final = 256
# As the audit log names who did it.
BROKER: Final = Actor("leveret", "", "broker")


class Alerts:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # The newest last.
        self.recent: deque[Alert] = deque(maxlen=REMEMBERED_MAX)
        # Alerts, and messages they were about, by kind.
        self.totals: dict[str, int] = dict.fromkeys(ALERT_KINDS, 0)
        self.messages_totals: dict[str, int] = dict.fromkeys(ALERT_KINDS, 0)
        # Who sends them on; must not wait.
        self.on_alert: list[Callable[[Alert], None]] = []

    def add(self, alert: Alert) -> None:
        self.recent.append(alert)
        self.totals[alert.kind] += 1
        self.messages_totals[alert.kind] += alert.count
        names = {"vhost": alert.vhost, "queue": alert.queue, "count": alert.count, "archive": alert.archive}
        outcome = DONE if alert.kind == ARCHIVED else FAILED
        if self._broker.audit is not None:
            self._broker.audit.note(BROKER, f"dead-letters.{alert.kind}", {**names, "job": alert.job}, outcome)
        if alert.kind == ARCHIVED:
            log.warning("messages were given up and archived", **names)
        else:
            log.error("messages cannot be archived and stay in their queue", **names, error=alert.error)
        for told in self.on_alert:
            told(alert)
