"""All routes there are."""

from __future__ import annotations

from leveret.management.api import (
    binding_changes,
    definitions,
    exchange_changes,
    limits,
    links,
    openapi,
    parameters,
    permissions,
    policies,
    queue_changes,
    users,
    vhosts,
    whoami,
)
from leveret.management.http.route import Table, routes_of

MODULES = (
    binding_changes,
    definitions,
    exchange_changes,
    limits,
    links,
    openapi,
    parameters,
    permissions,
    policies,
    queue_changes,
    users,
    vhosts,
    whoami,
)


def make_table() -> Table:
    return Table(one for module in MODULES for one in routes_of(module))
