"""The default user's password follows the configuration when that changes, and only then."""

import asyncio

import msgspec
import pytest

from leveret.broker.broker import Broker
from leveret.broker.definitions import Defaults, seed
from leveret.catalog import commands
from leveret.catalog.definitions import export
from leveret.catalog.passwords import verify_password
from leveret.operations.default_password import DefaultPassword
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice


class House:
    """A broker whose default user is ann."""

    def __init__(self, password: str = "first", given: bool = True) -> None:
        self.broker = Broker(Dice(), Clock())
        seed(self.broker, Defaults("ann", password))
        self.start(password, given, fresh=True)

    def start(self, password: str, given: bool = True, fresh: bool = False) -> None:
        DefaultPassword(self.broker).at_start("ann", password.encode(), given, fresh)

    def set_otherwise(self, password: str) -> None:
        changed = self.broker.logins.hash(password.encode())
        ann = self.broker.catalog.users["ann"]
        self.broker.apply(commands.PutUser(msgspec.structs.replace(ann, password_hash=changed)))

    def takes(self, password: str) -> bool:
        return verify_password(self.broker.catalog.users["ann"].password_hash, password.encode())


def test_a_changed_one_counts_at_a_start() -> None:
    house = House()
    house.start("first")
    assert house.takes("first")
    house.start("second")
    assert house.takes("second") and not house.takes("first")
    assert house.broker.catalog.users["ann"].tags == ("administrator",)


def test_what_was_set_otherwise_stays_until_the_configuration_changes() -> None:
    house = House()
    house.set_otherwise("by hand")
    house.start("first")
    assert house.takes("by hand")
    house.start("second")
    assert house.takes("second")


def test_one_that_nobody_has_set_changes_nothing() -> None:
    house = House("guest", given=False)
    house.set_otherwise("by hand")
    house.start("guest", given=False)
    assert house.takes("by hand")
    # Now somebody has.
    house.start("chosen")
    assert house.takes("chosen")


def test_a_deleted_user_is_not_made_again() -> None:
    house = House()
    house.broker.apply(commands.DeleteUser("ann"))
    house.start("second")
    assert "ann" not in house.broker.catalog.users


def test_a_user_of_a_former_version_keeps_its_password_until_it_changes() -> None:
    house = House()
    house.broker.apply(commands.DeleteGlobalParameter("leveret.default_password"))
    house.start("other")
    assert house.takes("first")
    house.start("third")
    assert house.takes("third")


def test_one_that_came_with_definitions_is_not_overwritten() -> None:
    house = House()
    house.set_otherwise("of the definitions")
    house.start("first", fresh=True)
    house.start("first")
    assert house.takes("of the definitions")


@pytest.mark.parametrize("exists", [True, False])
def test_a_changed_one_counts_while_the_node_runs(exists: bool) -> None:
    house = House()
    if not exists:
        house.broker.apply(commands.DeleteUser("ann"))

    async def live() -> None:
        password = DefaultPassword(house.broker)
        password.change("ann", b"lost race")
        password.change("ann", b"second")
        await password.close()

    asyncio.run(live())
    if exists:
        assert house.takes("second")
        # And a restart has nothing to do.
        house.set_otherwise("by hand")
        house.start("second")
        assert house.takes("by hand")
    else:
        assert "ann" not in house.broker.catalog.users


def test_the_memory_of_it_is_not_exported() -> None:
    house = House()
    assert "leveret.default_password" in house.broker.catalog.global_parameters
    assert "leveret.default_password" not in str(export(house.broker.catalog, {}))
