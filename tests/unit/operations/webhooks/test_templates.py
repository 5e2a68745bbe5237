"""What is posted: plain JSON, an event of PagerDuty's Events API v2, a message for Slack."""

import json
from typing import Any

import pytest

from leveret.operations.reprocess.spec import ARCHIVE_FAILED, ARCHIVED, Alert
from leveret.operations.webhooks.templates import GENERIC, PAGERDUTY, SLACK, Sender, payload, template_for

GIVEN_UP = Alert(1_700_000_000_000, "/", "orders.dead", "7", ARCHIVED, 3, "/archive/file.jsonl")
STUCK = Alert(1_700_000_000_000, "/", "orders.dead", "7", ARCHIVE_FAILED, 3, "/archive", "No space left on device")
SENDER = Sender("leveret@here", "shop", "key")


def posted(template: str, alert: Alert = GIVEN_UP) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(payload(template, alert, "id 1", SENDER))
    return found


@pytest.mark.parametrize(
    ("url", "template"),
    [
        ("https://events.pagerduty.com/v2/enqueue", PAGERDUTY),
        ("https://events.eu.pagerduty.com/v2/enqueue", PAGERDUTY),
        ("https://hooks.slack.com/services/T0/B0/x", SLACK),
        ("https://example.org/pagerduty.com", GENERIC),
        ("https://notpagerduty.com/", GENERIC),
    ],
)
def test_the_address_tells_which(url: str, template: str) -> None:
    assert template_for(url, "auto") == template
    assert template_for(url, GENERIC) == GENERIC


def test_plain_json_says_all() -> None:
    found = posted(GENERIC)
    assert found["summary"] == (
        "3 dead letters of queue 'orders.dead' in vhost '/' were given up and archived to /archive/file.jsonl"
    )
    assert (found["id"], found["event"], found["severity"]) == ("id 1", "dead-letters.archived", "warning")
    assert (found["time"], found["count"], found["cluster"]) == ("2023-11-14T22:13:20.000+00:00", 3, "shop")


def test_pagerduty_gets_what_it_requires() -> None:
    found = posted(PAGERDUTY, STUCK)
    assert (found["routing_key"], found["event_action"]) == ("key", "trigger")
    assert found["dedup_key"] == "leveret/shop/archive-failed///orders.dead"
    inner = found["payload"]
    assert (inner["source"], inner["severity"]) == ("leveret@here", "critical")
    assert inner["summary"].endswith("cannot be archived and stay there: No space left on device")
    assert inner["timestamp"] == "2023-11-14T22:13:20.000+00:00"


def test_long_names_fit_pagerdutys_limits() -> None:
    long = Alert(0, "v" * 255, "q" * 255, "7", ARCHIVED, 1, "/" * 4096)
    found = posted(PAGERDUTY, long)
    assert len(found["dedup_key"]) <= 255 and len(found["payload"]["summary"]) <= 1024


def test_slack_gets_a_text_that_it_does_not_interpret() -> None:
    alert = Alert(0, "/", "<!channel>&", "7", ARCHIVED, 1, "/archive")
    assert "&lt;!channel&gt;&amp;" in posted(SLACK, alert)["text"]


@pytest.mark.parametrize("template", [GENERIC, PAGERDUTY, SLACK])
def test_names_that_are_no_text_can_be_posted(template: str) -> None:
    name = b"\xff".decode("utf-8", "surrogateescape")
    assert posted(template, Alert(0, name, name, "7", ARCHIVE_FAILED, 1, name, name))
