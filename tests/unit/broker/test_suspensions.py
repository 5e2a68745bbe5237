"""A catalog that has lost commands: its users wait for an operator, over restarts too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leveret.auth.login import AuthSettings
from leveret.broker.broker import Broker
from leveret.broker.recovery import recover
from leveret.broker.suspensions import ALARM, release
from leveret.catalog import commands
from leveret.catalog.records import Permission, User
from leveret.errors import InvalidRequest, LoginRefused
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.store import Store, StoreSettings

HERE = "127.0.0.1"
REVOKED = commands.DeletePermission("ann", "/")


@contextmanager
def started(root: Path, **auth: object) -> Iterator[Broker]:
    store = Store(root, StoreSettings(), lambda: 1)
    broker = Broker(Dice(), Clock(), store, AuthSettings(**auth))  # type: ignore[arg-type]
    try:
        recover(broker)
        yield broker
    finally:
        broker.close()
        store.abandon()


def write_catalog(root: Path, *more: commands.Command) -> None:
    """Ann gets a right and loses it again; as a running broker writes it, one record after the other."""
    with started(root) as broker:
        given = [
            commands.PutUser(User("ann", broker.logins.hash(b"secret"))),
            commands.PutPermission(Permission("ann", "/", ".*", ".*", ".*")),
            REVOKED,
            *more,
        ]
        for command in given:
            broker.apply(command)
        catalog = broker.store.catalog  # type: ignore[union-attr]
        for _ in range(2):
            # The second time the file says how far it was synced: what is missing then is no torn end.
            data, offset = catalog.take()
            with catalog_file(root).open("r+b") as file:
                file.seek(offset)
                file.write(data)
            catalog.synced()
            catalog.add_evidence()


def catalog_file(root: Path) -> Path:
    return max((root / "catalog").glob("*.log"))


def lose(root: Path, words: bytes) -> None:
    """Flips a bit of the last record that has these words."""
    path = catalog_file(root)
    data = bytearray(path.read_bytes())
    data[data.rindex(words)] ^= 1
    path.write_bytes(bytes(data))


def log_in(broker: Broker, user: str, password: bytes) -> str:
    return asyncio.run(broker.logins.authenticate(user, password, HERE)).name


def refusal(broker: Broker, user: str, password: bytes) -> LoginRefused:
    with pytest.raises(LoginRefused) as caught:
        log_in(broker, user, password)
    return caught.value


def test_a_whole_catalog_suspends_nobody(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    with started(tmp_path) as broker:
        assert not broker.catalog.suspensions and ALARM not in broker.alarms
        assert ("ann", "/") not in broker.catalog.permissions
        assert log_in(broker, "ann", b"secret") == "ann"


def test_a_right_that_comes_back_is_of_no_use_until_an_operator_decides(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    lose(tmp_path, b"DeletePermission")
    for _ in range(2):
        # The first start writes the catalog anew, without the gap: the second one must know it all the same.
        with started(tmp_path) as broker:
            assert ("ann", "/") in broker.catalog.permissions
            assert sorted(broker.catalog.suspensions) == ["ann", "guest"]
            assert "catalog/" in broker.catalog.suspensions["ann"].reason
            assert "leveret users release" in broker.alarms[ALARM] and broker.blocked_reason is None
            for user, password in (("ann", b"secret"), ("guest", b"guest")):
                assert refusal(broker, user, password).suspended
                assert broker.logins.recognise(user, password, HERE) is None
            # A wrong password is nothing but a wrong password.
            assert not refusal(broker, "ann", b"wrong").suspended
            with pytest.raises(LoginRefused):
                broker.logins.admit("ann", HERE)


def test_what_an_operator_decided_is_kept(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    lose(tmp_path, b"DeletePermission")
    with started(tmp_path) as broker:
        with pytest.raises(InvalidRequest):
            release(broker, ["ann", "nobody"])
        release(broker, ["ann"])
        assert log_in(broker, "ann", b"secret") == "ann"
        assert refusal(broker, "guest", b"guest").suspended and ALARM in broker.alarms
        store = broker.store
        assert store is not None
        store.catalog.rewrite(store.snapshot())
    with started(tmp_path) as broker:
        assert list(broker.catalog.suspensions) == ["guest"]
        release(broker, ["guest"])
        assert ALARM not in broker.alarms
        assert broker.logins.admit("guest", HERE).name == "guest"


def test_a_user_who_is_made_anew_is_another_one(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    lose(tmp_path, b"DeletePermission")
    with started(tmp_path) as broker:
        broker.apply(commands.DeleteUser("ann"))
        broker.apply(commands.PutUser(User("ann", broker.logins.hash(b"new"))))
        assert log_in(broker, "ann", b"new") == "ann"


def test_suspended_users_are_no_guesses_that_failed(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    lose(tmp_path, b"DeletePermission")
    with started(tmp_path, failures_max=2) as broker:
        for _ in range(5):
            assert refusal(broker, "ann", b"secret").suspended
        release(broker, ["ann"])
        assert log_in(broker, "ann", b"secret") == "ann"


def test_guest_who_was_deleted_does_not_come_back_with_a_catalog_that_is_gone(tmp_path: Path) -> None:
    write_catalog(tmp_path, commands.DeleteUser("guest"))
    # A message was written, so there was a catalog.
    (tmp_path / "streams" / "7").mkdir(parents=True)
    catalog_file(tmp_path).unlink()
    with started(tmp_path) as broker:
        assert list(broker.catalog.users) == ["guest"] == list(broker.catalog.suspensions)


def test_the_operator_may_have_decided_before(tmp_path: Path) -> None:
    write_catalog(tmp_path)
    lose(tmp_path, b"DeletePermission")
    with started(tmp_path, suspends_on_damage=False) as broker:
        assert not broker.catalog.suspensions
        assert log_in(broker, "ann", b"secret") == "ann"
