"""Super streams in the catalog: one command makes all of one, and another takes all of it away."""

from __future__ import annotations

import pytest

from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.records import BindingRecord
from leveret.catalog.snapshot import is_durable, snapshot
from leveret.core.codec.field_types import Int64
from tests.unit.catalog.naming import catalog_of, job, queue, stream, super_exchange, to_queue, told

DECLARE = commands.DeclareSuperStream(
    super_exchange("s"), stream("s-0", 5, **{"x-max-age": "1h"}), (("s-0", "0"), ("s-1", "1"), ("s-2", "2"))
)
DELETE = commands.DeleteSuperStream("/", "s", ("s-0", "s-1", "s-2"))


def test_one_command_makes_exchange_streams_and_bindings() -> None:
    catalog = catalog_of()
    assert told(catalog.apply(DECLARE)) == [
        "+exchange s",
        "+queue s-0",
        "+queue s-1",
        "+queue s-2",
        "+binding s>s-0",
        "+binding s>s-1",
        "+binding s>s-2",
    ]
    topology = catalog.topologies["/"]
    assert topology.exchanges["s"] == super_exchange("s")
    assert topology.queues["s-2"] == stream("s-2", 7, **{"x-max-age": "1h"})
    expected = BindingRecord("/", "s", True, "s-2", "2", {"x-stream-partition-order": Int64(2)})
    assert topology.find_binding(expected) == expected


def test_ids_follow_each_other_and_are_not_given_again() -> None:
    catalog = catalog_of()
    catalog.apply(DECLARE)
    assert [queue.id for queue in catalog.topologies["/"].queues.values()] == [5, 6, 7]
    assert catalog.next_queue_id == 8
    catalog.apply(DELETE)
    assert catalog.next_queue_id == 8


def test_streams_that_do_not_survive_have_no_ids() -> None:
    catalog = catalog_of()
    catalog.apply(commands.DeclareSuperStream(super_exchange("s"), stream("s-0"), (("s-0", "0"), ("s-1", "1"))))
    assert [queue.id for queue in catalog.topologies["/"].queues.values()] == [0, 0]


def test_one_command_takes_everything_away_and_nothing_else() -> None:
    catalog = catalog_of(super_exchange("other"), queue("q"), job("q"))
    before = snapshot(catalog)
    catalog.apply(DECLARE)
    catalog.apply(commands.Bind(to_queue("s", "q", "3")))
    catalog.apply(commands.Bind(to_queue("other", "s-1", "1")))
    catalog.apply(commands.PutJob(job("s-1")))
    assert told(catalog.apply(DELETE)) == [
        "-binding s>s-0",
        "-binding s>s-1",
        "-binding s>s-2",
        "-binding s>q",
        "-exchange s",
        "-queue s-0",
        "-binding other>s-1",
        "-queue s-1",
        "-job s-1",
        "-queue s-2",
    ]
    # But for the ids, which are gone for good.
    assert snapshot(catalog)[1:] == before[1:]
    assert catalog.topologies["/"].bindings_to == {}


def test_both_are_logged() -> None:
    catalog = catalog_of()
    assert all(is_durable(catalog, change) for change in catalog.apply(DECLARE))
    assert any(is_durable(catalog, change) for change in catalog.apply(DELETE))


def test_a_snapshot_makes_it_again() -> None:
    catalog = catalog_of()
    catalog.apply(DECLARE)
    again = Catalog()
    for command in snapshot(catalog):
        again.apply(commands.decode_command(commands.encode_command(command)))
    assert snapshot(again) == snapshot(catalog)
    assert again.topologies["/"].bindings_from == catalog.topologies["/"].bindings_from


@pytest.mark.parametrize("cut", range(5))
def test_a_log_that_ends_anywhere_has_all_of_a_super_stream_or_nothing(cut: int) -> None:
    """The log keeps whole commands, so this is all that a crash can leave."""
    log = [commands.encode_command(command) for command in (DECLARE, DELETE, DECLARE, DELETE)]
    catalog = catalog_of()
    for octets in log[:cut]:
        catalog.apply(commands.decode_command(octets))
    topology = catalog.topologies["/"]
    streams = [queue.name for queue in topology.queues.values()]
    bound = [binding.destination for binding in topology.bindings_from.get("s", {}).values()]
    whole = ["s-0", "s-1", "s-2"] if cut % 2 else []
    assert (streams, bound, "s" in topology.exchanges) == (whole, whole, bool(whole))
