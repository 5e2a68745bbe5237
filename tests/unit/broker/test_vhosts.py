"""The service for virtual hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from leveret.broker.vhosts import VhostService
from leveret.catalog.records import Vhost
from leveret.errors import InvalidRequest
from tests.unit.broker.people import Town


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    yield town
    town.close()


@pytest.fixture
def vhosts(town: Town) -> VhostService:
    return VhostService(town.broker)


def test_whoever_makes_a_virtual_host_may_do_everything_in_it(town: Town, vhosts: VhostService) -> None:
    assert vhosts.put(Vhost("new"), "ann")
    permission = town.broker.catalog.permissions["ann", "new"]
    assert (permission.configure, permission.write, permission.read) == (".*", ".*", ".*")
    assert vhosts.put(Vhost("other"), "local operator")
    assert not any(vhost == "other" for _, vhost in town.broker.catalog.permissions)
    # Changing one gives nobody anything.
    assert not vhosts.put(Vhost("new", description="d"), "bob")
    assert ("bob", "new") not in town.broker.catalog.permissions


def test_a_protected_one_is_not_deleted(town: Town, vhosts: VhostService) -> None:
    vhosts.put(Vhost("v"))
    vhosts.protect(town.broker.catalog.vhosts["v"], True)
    with pytest.raises(InvalidRequest, match="protected"):
        vhosts.delete("v")
    vhosts.protect(town.broker.catalog.vhosts["v"], False)
    assert vhosts.delete("v")
    assert not vhosts.delete("v")


def test_limits(town: Town, vhosts: VhostService) -> None:
    vhosts.set_limit(town.broker.catalog.vhosts["/"], "max-queues", 5)
    vhosts.set_limit(town.broker.catalog.vhosts["/"], "max-connections", -1)
    assert town.broker.catalog.vhosts["/"].limits == {"max-queues": 5, "max-connections": -1}
    vhosts.clear_limit(town.broker.catalog.vhosts["/"], "max-queues")
    assert town.broker.catalog.vhosts["/"].limits == {"max-connections": -1}
    with pytest.raises(InvalidRequest, match="Unrecognised"):
        vhosts.set_limit(town.broker.catalog.vhosts["/"], "max-channels", 5)


@pytest.mark.parametrize(
    "changed",
    [
        {"name": ""},
        {"name": "x" * 256},
        {"description": "x" * 2000},
        {"tags": tuple(str(number) for number in range(65))},
        {"tags": ("",)},
        {"default_queue_type": "nonsense"},
    ],
)
def test_bad_ones_are_refused(town: Town, vhosts: VhostService, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        vhosts.put(msgspec.structs.replace(Vhost("v"), **changed))
    assert list(town.broker.catalog.vhosts) == ["/"]
