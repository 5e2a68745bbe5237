"""Patterns in the catalog that this version cannot match: an older one, whose matcher knew look-around and
backreferences, may have taken them. A permission with one allows nothing, a policy with one applies to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from leveret.catalog.catalog import Catalog
from leveret.catalog.patterns import expanded, problem_of
from leveret.catalog.records import Permission, Policy, TopicPermission


class Unusable(NamedTuple):
    # What has the pattern, such as "permission", and whose it is.
    kind: str
    vhost: str
    name: str
    field: str
    pattern: str
    problem: str


def unusable_patterns(catalog: Catalog) -> Iterator[Unusable]:
    for permission in catalog.permissions.values():
        yield from _of("permission", permission.user, permission)
    for topic in catalog.topic_permissions.values():
        yield from _of("topic permission", f"{topic.user} {topic.exchange}", topic)
    for book in catalog.policies.values():
        for policy in book.all():
            yield from _of("operator policy" if policy.operator else "policy", policy.name, policy)


def pattern_problems(record: Permission | TopicPermission | Policy) -> dict[str, str]:
    """What is wrong with each of its patterns, by field; of most records nothing."""
    found: dict[str, str] = {}
    for field, pattern in _patterns(record):
        problem = problem_of(pattern)
        if problem is not None:
            found[field] = problem
    return found


def with_problems(shown: dict[str, Any], record: Permission | TopicPermission | Policy) -> dict[str, Any]:
    """What operators see of it, and if there is something wrong with a pattern, what."""
    problems = pattern_problems(record)
    return {**shown, "pattern_problems": problems} if problems else shown


def _of(kind: str, name: str, record: Permission | TopicPermission | Policy) -> Iterator[Unusable]:
    for field, problem in pattern_problems(record).items():
        yield Unusable(kind, record.vhost, name, field, getattr(record, field), problem)


def _patterns(record: Permission | TopicPermission | Policy) -> Iterator[tuple[str, str]]:
    if isinstance(record, Policy):
        yield "pattern", record.pattern
    elif isinstance(record, Permission):
        yield from (("configure", record.configure), ("write", record.write), ("read", record.read))
    else:
        yield "write", expanded(record.write, record.user, record.vhost)
        yield "read", expanded(record.read, record.user, record.vhost)
