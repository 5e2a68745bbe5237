"""Logins: what is remembered and when it is void, and that the slow hash runs once, off the loop, for strangers too."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from leveret.broker import login as login_module
from leveret.broker.login import REMEMBERED_MAX, AuthSettings, Logins
from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.passwords import hash_known_password
from leveret.catalog.records import User
from leveret.errors import LoginRefused
from leveret.runtime.dice import Dice
from tests.unit.catalog.naming import catalog_of

SALT = bytes(16)
HERE = "127.0.0.1"


class Fixture:
    """A catalog with ann, whose password is "right", and a log of the slow checks."""

    def __init__(self, logins: Logins, catalog: Catalog) -> None:
        self.logins = logins
        self.catalog = catalog
        # (hash, password, thread) of each slow check
        self.checks: list[tuple[str, bytes, str]] = []

    def set_password(self, password: bytes) -> None:
        self.catalog.apply(commands.PutUser(User("ann", hash_known_password(password, SALT))))

    def verify(self, user: str, password: bytes) -> bool:
        return asyncio.run(self.attempt(user, password))

    async def attempt(self, user: str, password: bytes, host: str = HERE) -> bool:
        try:
            identity = await self.logins.authenticate(user, password, host)
        except LoginRefused:
            return False
        return identity.name == user

    def recognise(self, user: str, password: bytes, host: str = HERE) -> bool:
        return self.logins.recognise(user, password, host) is not None


@pytest.fixture
def fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fixture]:
    catalog = catalog_of(User("ann", hash_known_password(b"right", SALT)))
    made = Fixture(Logins(catalog, Dice(), settings=AuthSettings(failures_max=0)), catalog)
    verify = login_module.verify_password

    def verify_noted(password_hash: str, password: bytes) -> bool:
        made.checks.append((password_hash, password, threading.current_thread().name))
        return verify(password_hash, password)

    monkeypatch.setattr(login_module, "verify_password", verify_noted)
    yield made
    made.logins.close()


def test_nobody_is_recognised_before_a_success(fixture: Fixture) -> None:
    assert not fixture.recognise("ann", b"right")
    assert not fixture.verify("ann", b"wrong")
    assert not fixture.recognise("ann", b"right")
    assert not fixture.recognise("ann", b"wrong")


def test_a_success_is_recognised_with_that_password_only(fixture: Fixture) -> None:
    assert fixture.verify("ann", b"right")
    assert fixture.recognise("ann", b"right")
    assert not fixture.recognise("ann", b"wrong")
    assert not fixture.recognise("bob", b"right")


def test_a_failure_does_not_undo_a_success(fixture: Fixture) -> None:
    fixture.verify("ann", b"right")
    fixture.verify("ann", b"wrong")
    assert fixture.recognise("ann", b"right")


def test_a_changed_password_voids_what_was_remembered(fixture: Fixture) -> None:
    fixture.verify("ann", b"right")
    fixture.set_password(b"new")
    assert not fixture.recognise("ann", b"right")
    assert not fixture.verify("ann", b"right")
    assert fixture.verify("ann", b"new")
    assert fixture.recognise("ann", b"new")


def test_a_deleted_user_is_not_recognised(fixture: Fixture) -> None:
    fixture.verify("ann", b"right")
    fixture.catalog.apply(commands.DeleteUser("ann"))
    assert not fixture.recognise("ann", b"right")
    assert not fixture.verify("ann", b"right")


def test_a_password_changed_while_it_is_checked_is_not_accepted(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify_slowly(password_hash: str, password: bytes) -> bool:
        fixture.set_password(b"new")
        return True

    monkeypatch.setattr(login_module, "verify_password", verify_slowly)
    assert not fixture.verify("ann", b"right")
    assert not fixture.recognise("ann", b"right")


@pytest.mark.parametrize("user", ["nobody", "bodyless"])
def test_an_unknown_user_costs_a_full_hash_and_is_refused(fixture: Fixture, user: str) -> None:
    fixture.catalog.apply(commands.PutUser(User("bodyless", "")))
    assert not fixture.verify(user, b"right")
    assert not fixture.verify(user, b"")
    assert not fixture.verify(user, b"nobody")
    assert [password for _, password, _ in fixture.checks] == [b"right", b"", b"nobody"]
    # A hash as costly as a real one, and one that no user has.
    assert all("m=19456,t=2" in password_hash for password_hash, _, _ in fixture.checks)
    assert not fixture.recognise(user, b"nobody")


def test_equal_attempts_that_come_together_are_checked_once(fixture: Fixture) -> None:
    async def crowd() -> list[bool]:
        return await asyncio.gather(*(fixture.attempt("ann", b"right") for _ in range(20)))

    assert asyncio.run(crowd()) == [True] * 20
    assert len(fixture.checks) == 1


def test_unequal_attempts_that_come_together_are_checked_each(fixture: Fixture) -> None:
    async def crowd() -> list[bool]:
        attempts = (("ann", b"right"), ("ann", b"wrong"), ("bob", b"right"))
        return await asyncio.gather(*(fixture.attempt(*attempt) for attempt in attempts))

    assert asyncio.run(crowd()) == [True, False, False]
    assert len(fixture.checks) == 3


def test_an_attempt_after_the_first_has_ended_is_checked_again(fixture: Fixture) -> None:
    fixture.verify("ann", b"wrong")
    fixture.verify("ann", b"wrong")
    assert len(fixture.checks) == 2


def test_one_who_gives_up_does_not_spoil_it_for_the_others(fixture: Fixture) -> None:
    async def crowd() -> bool:
        first = asyncio.ensure_future(fixture.attempt("ann", b"right"))
        second = asyncio.ensure_future(fixture.attempt("ann", b"right"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(crowd())


def test_one_who_comes_just_after_the_others_gave_up_is_served(fixture: Fixture) -> None:
    async def crowd() -> bool:
        first = asyncio.ensure_future(fixture.attempt("ann", b"right"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        return await fixture.attempt("ann", b"right")

    assert asyncio.run(crowd())


def test_an_attempt_that_everybody_has_given_up_is_not_hashed(
    fixture: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a short flood of bad logins would keep the one thread busy long after its connections are gone."""
    started, go, checked = threading.Event(), threading.Event(), []

    def verify_slowly(password_hash: str, password: bytes) -> bool:
        checked.append(password)
        started.set()
        go.wait(5)
        return False

    monkeypatch.setattr(login_module, "verify_password", verify_slowly)

    async def flood() -> None:
        attempts = [asyncio.ensure_future(fixture.attempt("ann", b"bad%d" % number)) for number in range(5)]
        assert await asyncio.to_thread(started.wait, 5)
        for attempt in attempts[1:]:
            attempt.cancel()
        await asyncio.wait(attempts[1:])
        go.set()
        assert await attempts[0] is False
        assert await fixture.attempt("ann", b"last") is False

    asyncio.run(flood())
    assert checked == [b"bad0", b"last"]


def test_the_slow_hash_runs_off_the_loop(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def verify_slowly(password_hash: str, password: bytes) -> bool:
        threads.append(threading.current_thread())
        time.sleep(0.2)
        return True

    monkeypatch.setattr(login_module, "verify_password", verify_slowly)

    async def turn_meanwhile() -> int:
        attempt = asyncio.ensure_future(fixture.attempt("ann", b"right"))
        turns = 0
        while not attempt.done():
            await asyncio.sleep(0.005)
            turns += 1
        return turns

    assert asyncio.run(turn_meanwhile()) > 5
    assert threads and threads[0] is not threading.current_thread()


def test_what_is_remembered_is_bounded(fixture: Fixture) -> None:
    password_hash = fixture.catalog.users["ann"].password_hash
    for number in range(REMEMBERED_MAX):
        fixture.logins.remember(f"user{number}", password_hash, b"right")
    fixture.logins.remember("ann", password_hash, b"right")
    assert len(fixture.logins._known) <= REMEMBERED_MAX
    assert fixture.recognise("ann", b"right")


def test_no_password_is_kept(fixture: Fixture) -> None:
    fixture.verify("ann", b"right")
    assert b"right" not in repr(vars(fixture.logins)).encode()


def test_closing_ends_the_thread(fixture: Fixture) -> None:
    before = set(threading.enumerate())
    fixture.verify("ann", b"right")
    started = [thread for thread in threading.enumerate() if thread not in before]
    assert [thread.name.startswith("leveret-login") for thread in started] == [True]
    fixture.logins.close()
    started[0].join(5)
    assert not started[0].is_alive()
