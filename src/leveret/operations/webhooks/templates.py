"""What is posted for an alert: plain JSON of ours, an event of PagerDuty (Events API v2), or a message for Slack.

Pure: makes octets of an alert."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from leveret.core.codec.names import name_octets
from leveret.operations.reprocess.spec import ARCHIVED, Alert

AUTO, GENERIC, PAGERDUTY, SLACK = "auto", "generic", "pagerduty", "slack"
TEXT_CHARACTERS_MAX: Final = 1000

_encoder = msgspec.json.Encoder()


class Sender(NamedTuple):
    """Who sends, and with which key of PagerDuty's integration."""

    node: str
    cluster: str
    routing_key: str = ""


def template_for(url: str, chosen: str) -> str:
    """By the address, unless one was chosen."""
    if chosen != AUTO:
        return chosen
    host = urlsplit(url).hostname or ""
    if host == "pagerduty.com" or host.endswith(".pagerduty.com"):
        return PAGERDUTY
    return SLACK if host == "hooks.slack.com" or host == "hooks.slack-gov.com" else GENERIC


def payload(template: str, alert: Alert, alert_id: str, sender: Sender) -> bytes:
    return _encoder.encode(_TEMPLATES[template](alert, alert_id, sender))


def summary(alert: Alert) -> str:
    where = f"queue '{_text(alert.queue)}' in vhost '{_text(alert.vhost)}'"
    if alert.kind == ARCHIVED:
        return f"{alert.count} dead letters of {where} were given up and archived to {_text(alert.archive)}"
    return f"{alert.count} dead letters of {where} cannot be archived and stay there: {_text(alert.error)}"


def plain(alert: Alert) -> Alert:
    """The same with texts that JSON can hold: names may hold what is no text at all."""
    names = ("vhost", "queue", "job", "archive", "error")
    return msgspec.structs.replace(alert, **{name: _text(getattr(alert, name)) for name in names})


def _generic(alert: Alert, alert_id: str, sender: Sender) -> dict[str, Any]:
    return {
        "id": alert_id,
        "event": f"dead-letters.{alert.kind}",
        "severity": _severity(alert),
        "time": _moment(alert),
        "summary": summary(alert),
        "node": sender.node,
        "cluster": sender.cluster,
        "vhost": _text(alert.vhost),
        "queue": _text(alert.queue),
        "count": alert.count,
        "archive": _text(alert.archive),
        "job": alert.job,
        "error": _text(alert.error),
    }


def _pagerduty(alert: Alert, alert_id: str, sender: Sender) -> dict[str, Any]:
    return {
        "routing_key": sender.routing_key,
        "event_action": "trigger",
        # One incident for a queue and a kind, however often it comes; PagerDuty takes 255 characters.
        "dedup_key": f"leveret/{sender.cluster}/{alert.kind}/{_text(alert.vhost)}/{_text(alert.queue)}"[:255],
        "payload": {
            "summary": summary(alert)[:1024],
            "source": sender.node,
            "severity": _severity(alert),
            "timestamp": _moment(alert),
            "component": _text(alert.queue),
            "group": sender.cluster,
            "class": f"dead-letters.{alert.kind}",
            "custom_details": _generic(alert, alert_id, sender),
        },
    }


def _slack(alert: Alert, alert_id: str, sender: Sender) -> dict[str, Any]:
    # These three have a meaning in Slack's texts.
    text = f"[{sender.cluster}] {summary(alert)}".replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    sign = ":file_cabinet:" if alert.kind == ARCHIVED else ":rotating_light:"
    return {"text": f"{sign} {text}"}


_TEMPLATES: Final[dict[str, Callable[[Alert, str, Sender], dict[str, Any]]]] = {
    GENERIC: _generic,
    PAGERDUTY: _pagerduty,
    SLACK: _slack,
}


def _severity(alert: Alert) -> str:
    return "warning" if alert.kind == ARCHIVED else "critical"


def _moment(alert: Alert) -> str:
    return datetime.fromtimestamp(alert.at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _text(text: str) -> str:
    """Names may hold what is no text at all."""
    return name_octets(text[:TEXT_CHARACTERS_MAX]).decode("utf-8", "replace")
