"""What clients use of the budgets that they share, and how often one of them was turned away for lack of room."""

from __future__ import annotations

from leveret.management.metrics.exposition import Family
from leveret.management.metrics.source import Source


def budgets(source: Source) -> list[Family]:
    unfinished = source.broker.limits.unfinished
    used = Family("leveret_budget_used_bytes", "gauge", "Memory for what is on its way, by what it is")
    refused = Family(
        "leveret_budget_refused_total", "counter", "Connections closed or requests refused for lack of room"
    )
    messages = (("budget", "unfinished_messages"),)
    used.add(unfinished.held_bytes, messages)
    refused.add(unfinished.closed_total, messages)
    for name, budget in source.http_budgets.items():
        labels = (("budget", name),)
        used.add(budget.used, labels)
        refused.add(budget.refused_total, labels)
    return [used, refused]
