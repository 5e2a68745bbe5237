"""What becomes of dead letters by itself: alerts about those that were given up, and which queues are retried when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Raw

from leveret.auth.access import Right, sees_vhost
from leveret.management.api.visible import meant_vhosts
from leveret.management.http.lists import shown
from leveret.management.http.request import Request
from leveret.management.http.route import Scope, route
from leveret.operations.reprocess.schedule import Scheduled
from leveret.operations.reprocess.spec import Alert
from leveret.runtime.time_slice import TimeSlice


@route(
    "GET",
    "/api/dead-letter-alerts",
    Right.MONITORING,
    "The last alerts about dead letters, newest first, with counts since the start and what became of webhooks",
)
def get_alerts(request: Request) -> dict[str, Any]:
    alerts, webhooks = request.services.reprocessor.alerts, request.services.webhooks
    reprocessor, outcomes = request.services.reprocessor, request.services.webhooks.outcomes
    return {
        "alerts": [_alert(alert) for alert in reversed(alerts.recent) if sees_vhost(request.who, alert.vhost)],
        "alerts_total": alerts.totals,
        "messages_total": alerts.messages_totals,
        "reprocessing": {
            "jobs_total": reprocessor.jobs_total,
            "moved_total": reprocessor.moved_total,
            "archived_total": reprocessor.archived_total,
            "failed_total": reprocessor.failed_total,
        },
        "webhooks": {
            "pending": webhooks.pending,
            "delivered_total": outcomes.delivered_total,
            "retried_total": outcomes.retried_total,
            "failed_total": outcomes.failed_total,
            "dropped_total": outcomes.dropped_total,
            "restored_total": outcomes.restored_total,
        },
    }


def _alert(alert: Alert) -> dict[str, Any]:
    return {
        "time": _moment(alert.at_ms / 1000),
        "timestamp": alert.at_ms,
        "kind": alert.kind,
        "vhost": alert.vhost,
        "queue": alert.queue,
        "count": alert.count,
        "archive": alert.archive,
        "job": alert.job,
        "error": alert.error,
    }


@route(
    "GET",
    "/api/dead-letter-schedules",
    Right.MANAGEMENT,
    "Queues whose dead letters are retried by themselves, how often, and when they are archived",
)
@route(
    "GET",
    "/api/dead-letter-schedules/{vhost}",
    Right.MANAGEMENT,
    "The same for one virtual host",
    scope=Scope.SEE,
)
async def get_schedules(request: Request) -> list[Raw]:
    """Set one with PUT /api/parameters/reprocess-schedule/{vhost}/{queue}, by a policy, or in the configuration."""
    names = {vhost.name for vhost in meant_vhosts(request)}
    return await shown(await request.services.schedule().scheduled(names, TimeSlice()), _schedule)


def _schedule(found: Scheduled) -> dict[str, Any]:
    return {
        "vhost": found.record.vhost,
        "queue": found.record.name,
        "every_s": found.timing.every_s,
        "archive_after_s": found.timing.archive_after_s,
        "set_by": found.timing.said_by,
        "next_at": _moment(found.next_s),
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
