"""What was done about dead letters: jobs, the archive, alerts, and what became of webhooks."""

from __future__ import annotations

from typing import Final

from leveret.management.metrics.exposition import Family
from leveret.management.metrics.node_families import family
from leveret.management.metrics.source import Source

JOBS: Final = {
    "leveret_replay_jobs_total": ("jobs_total", "Jobs that were started to move dead letters"),
    "leveret_replay_messages_total": ("moved_total", "Dead letters that jobs sent back to work"),
    "leveret_replay_archived_total": ("archived_total", "Dead letters that were given up and archived"),
    "leveret_replay_failed_total": ("failed_total", "Dead letters that jobs could not move, each try counted"),
}
OUTCOMES: Final = ("delivered", "retried", "failed", "dropped")


def dead_letter_care(source: Source) -> list[Family]:
    found = [family(name, "counter", text, getattr(source.reprocessor, field)) for name, (field, text) in JOBS.items()]
    alerts = Family("leveret_dead_letter_alerts_total", "counter", "Alerts about dead letters")
    messages = Family("leveret_dead_letter_alert_messages_total", "counter", "Messages that these alerts were about")
    for kind, count in source.reprocessor.alerts.totals.items():
        alerts.add(count, (("kind", kind),))
        messages.add(source.reprocessor.alerts.messages_totals[kind], (("kind", kind),))
    posts = Family("leveret_webhook_posts_total", "counter", "What became of alerts for webhooks")
    for outcome in OUTCOMES:
        posts.add(getattr(source.webhooks.outcomes, f"{outcome}_total"), (("outcome", outcome),))
    text = "Alerts that wait to be posted, all addresses together"
    pending = family("leveret_webhook_pending", "gauge", text, source.webhooks.pending)
    text = "Alerts that waited when the broker ended, and that this run goes on with"
    restored = family("leveret_webhook_restored_total", "counter", text, source.webhooks.outcomes.restored_total)
    return [*found, alerts, messages, posts, pending, restored]
