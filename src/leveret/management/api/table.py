"""All routes there are."""

from __future__ import annotations

from leveret.management.api import fetch, openapi, publish, whoami
from leveret.management.http.route import Table, routes_of

MODULES = (fetch, openapi, publish, whoami)


def make_table() -> Table:
    return Table(one for module in MODULES for one in routes_of(module))
