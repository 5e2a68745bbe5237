"""All routes there are."""

from __future__ import annotations

from leveret.management.api import openapi, whoami
from leveret.management.http.route import Table, routes_of

MODULES = (openapi, whoami)


def make_table() -> Table:
    return Table(one for module in MODULES for one in routes_of(module))
