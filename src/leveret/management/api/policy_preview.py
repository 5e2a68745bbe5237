"""What a policy would change, before it is set. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leveret.auth.access import Right
from leveret.catalog.policies import Applied, PolicyBook
from leveret.catalog.policy_keys import check_policy
from leveret.catalog.records import ExchangeRecord, Policy, QueueRecord
from leveret.management.http.bodies import COUNT, POLICY_BODY, TEXT, described
from leveret.management.http.fields import Fields
from leveret.management.http.request import Request
from leveret.management.http.route import Scope, route
from leveret.runtime.time_slice import TimeSlice

SHOWN_MAX = 200
APPLIED = described(("policy", "definition"), policy={"type": ["string", "null"]}, definition={"type": "object"})
CHANGE = described(("kind", "name", "before", "after"), kind=TEXT, name=TEXT, before=APPLIED, after=APPLIED)
PREVIEW = described(
    ("matched", "changed", "changes"), matched=COUNT, changed=COUNT, changes={"type": "array", "items": CHANGE}
)


@route(
    "POST",
    "/api/policies/{vhost}/{name}/preview",
    Right.POLICYMAKER,
    f"Which queues and exchanges a policy would apply to, and what it would change; of changes {SHOWN_MAX} are shown",
    scope=Scope.GOVERN,
    accepts=POLICY_BODY,
    answers={200: PREVIEW},
    harmless=True,
)
async def preview_policy(request: Request) -> dict[str, Any]:
    vhost = request.vhost.name
    fields = Fields(request.body)
    fields.need("pattern", "definition")
    values = fields.values
    policy = Policy(
        vhost,
        request.path["name"],
        values["pattern"],
        values.get("apply-to", "all"),
        values.get("priority", 0),
        values["definition"],
        False,
    )
    check_policy(policy)
    before = request.services.broker.catalog.policies[vhost]
    after = PolicyBook(before.all())
    after.put(policy)
    matched = changed = 0
    changes: list[dict[str, Any]] = []
    turn = TimeSlice()
    for record in _records(request, vhost):
        await turn.rest()
        old, new = _applied(before, record), _applied(after, record)
        matched += new.name == policy.name
        if old.definition != new.definition or old.name != new.name:
            changed += 1
            if len(changes) < SHOWN_MAX:
                kind = "queue" if isinstance(record, QueueRecord) else "exchange"
                changes.append({"kind": kind, "name": record.name, "before": _shown(old), "after": _shown(new)})
    return {"matched": matched, "changed": changed, "changes": changes}


def _records(request: Request, vhost: str) -> Iterator[QueueRecord | ExchangeRecord]:
    """As they are now: others may change them while this goes on."""
    topology = request.services.broker.catalog.topologies[vhost]
    yield from list(topology.queues.values())
    yield from list(topology.exchanges.values())


def _applied(book: PolicyBook, record: QueueRecord | ExchangeRecord) -> Applied:
    return book.of_queue(record) if isinstance(record, QueueRecord) else book.of_exchange(record)


def _shown(applied: Applied) -> dict[str, Any]:
    return {"policy": applied.name, "definition": applied.definition}
