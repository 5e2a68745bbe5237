"""No method goes without a decision: each handler is in the table of permissions, or among those that need none."""

from __future__ import annotations

from leveret.session.session import CHANNEL_HANDLERS
from tests.conformance.amqp_methods import METHODS
from tests.contract.permission_table import CASES, WITHOUT_RIGHTS

NAMES = {spec.class_id << 16 | spec.method_id: name for name, spec in METHODS.items()}
# Which no client of the tests sends.
NAMES[30 << 16 | 10] = "access.request"

# What the data plane handles itself (core/connection/connection.py).
IN_THE_DATA_PLANE = {"basic.publish", "basic.ack", "basic.nack", "basic.reject"}


def test_every_method_has_a_row_or_needs_none() -> None:
    handled = {NAMES[method] for method in CHANNEL_HANDLERS} | IN_THE_DATA_PLANE
    with_rights = {case.method for case in CASES}
    assert handled - with_rights - WITHOUT_RIGHTS == set()
    assert with_rights & WITHOUT_RIGHTS == set()
    assert (with_rights | WITHOUT_RIGHTS) - handled == set()
