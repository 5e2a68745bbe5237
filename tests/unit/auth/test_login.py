"""Logins: what is remembered and when it is void, and that the slow hash runs once, off the loop, for strangers too."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from leveret.auth import login as login_module
from leveret.auth.login import REMEMBERED_MAX, AuthSettings, Logins
from leveret.auth.tokens import TokenSettings
from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.passwords import PASSWORD_BYTES_MAX, hash_known_password, hash_password, is_costly
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
    made = Fixture(Logins(catalog, Dice(), settings=AuthSettings(failures_max=0), threads=1), catalog)
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


# ---- who is let in from where


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", ""])
def test_guest_may_come_from_this_machine(fixture: Fixture, host: str) -> None:
    assert fixture.logins.allowed_from("guest", host)


@pytest.mark.parametrize("host", ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "localhost"])
def test_guest_may_not_come_from_elsewhere_but_others_may(fixture: Fixture, host: str) -> None:
    assert not fixture.logins.allowed_from("guest", host)
    assert fixture.logins.allowed_from("ann", host)
    fixture.logins.configure(AuthSettings(loopback_users=("ann",), failures_max=0))
    assert fixture.logins.allowed_from("guest", host)
    assert not asyncio.run(fixture.attempt("ann", b"right", host))
    assert fixture.checks == []
    assert asyncio.run(fixture.attempt("ann", b"right", HERE))
    assert not fixture.recognise("ann", b"right", host)


def test_whoever_has_proved_it_otherwise_needs_no_password(fixture: Fixture) -> None:
    fixture.logins.configure(AuthSettings(loopback_users=("ann",), failures_max=0))
    assert fixture.logins.admit("ann", HERE).name == "ann"
    for user, host in (("ann", "10.0.0.1"), ("nobody", HERE)):
        with pytest.raises(LoginRefused):
            fixture.logins.admit(user, host)
    assert (fixture.logins.attempts["amqp"].succeeded, fixture.logins.attempts["amqp"].failed) == (1, 2)


def test_attempts_are_counted_by_protocol(fixture: Fixture) -> None:
    async def scene() -> None:
        for password in (b"right", b"right", b"wrong"):
            for protocol in ("amqp", "http"):
                with contextlib.suppress(LoginRefused):
                    await fixture.logins.authenticate("ann", password, HERE, protocol)

    asyncio.run(scene())
    fixture.logins.refuse("stream")
    counted = {name: (each.succeeded, each.failed) for name, each in fixture.logins.attempts.items()}
    assert counted == {"amqp": (2, 1), "http": (2, 1), "stream": (0, 1)}
    assert fixture.logins.refused_total == 3


# ---- hashes from RabbitMQ


def test_a_hash_from_rabbitmq_becomes_ours_at_the_first_login(fixture: Fixture) -> None:
    kept: list[tuple[str, str]] = []

    def store(user: str, password_hash: str) -> None:
        kept.append((user, password_hash))
        fixture.catalog.apply(commands.PutUser(User(user, password_hash)))

    fixture.logins = Logins(fixture.catalog, Dice(), store_hash=store)
    fixture.catalog.apply(commands.PutUser(User("ann", hash_password(b"right", SALT, "rabbit_sha256"))))
    assert not fixture.verify("ann", b"wrong")
    assert kept == []
    assert fixture.verify("ann", b"right")
    assert [(user, is_costly(password_hash)) for user, password_hash in kept] == [("ann", True)]
    assert fixture.recognise("ann", b"right")
    assert fixture.verify("ann", b"right")
    assert len(kept) == 1
    fixture.logins.close()


def test_those_who_come_from_many_places_at_the_first_login_are_all_let_in(fixture: Fixture) -> None:
    def store(user: str, password_hash: str) -> None:
        fixture.catalog.apply(commands.PutUser(User(user, password_hash)))

    fixture.logins = Logins(fixture.catalog, Dice(), store_hash=store)
    fixture.catalog.apply(commands.PutUser(User("ann", hash_password(b"right", SALT, "rabbit_sha256"))))

    async def crowd() -> list[bool]:
        hosts = [f"10.0.0.{number}" for number in range(5)]
        return await asyncio.gather(*(fixture.attempt("ann", b"right", host) for host in hosts))

    assert asyncio.run(crowd()) == [True] * 5
    fixture.logins.close()


def test_a_hash_from_rabbitmq_stays_if_such_ones_are_wanted(fixture: Fixture) -> None:
    fixture.logins.configure(AuthSettings(password_hash="rabbit_sha512", failures_max=0))
    stored = hash_password(b"right", SALT, "rabbit_sha256")
    fixture.catalog.apply(commands.PutUser(User("ann", stored)))
    assert fixture.verify("ann", b"right")
    assert fixture.recognise("ann", b"right")
    assert fixture.logins.hash(b"new").startswith("$rabbit-sha512$")


def test_a_wrong_password_takes_as_long_whoever_is_asked_for(fixture: Fixture) -> None:
    """For nobody, and for users whose hash is a quick one."""
    users = {
        "argon2": hash_password(b"right", SALT),
        "rabbit": hash_password(b"right", SALT, "rabbit_sha256"),
        "quick": hash_known_password(b"right", SALT),
        "empty": "",
    }
    for name, password_hash in users.items():
        fixture.catalog.apply(commands.PutUser(User(name, password_hash)))
    took: dict[str, list[float]] = {}
    for turn in range(10):
        for name in (*users, "nobody"):
            began = time.perf_counter()
            assert not fixture.verify(name, b"wrong%d" % turn)
            # The first turn makes the decoy.
            if turn:
                took.setdefault(name, []).append(time.perf_counter() - began)
    best = {name: min(times) for name, times in took.items()}
    assert max(best.values()) < 4 * min(best.values()), best


def test_a_password_that_is_too_long_is_refused_like_a_wrong_one(fixture: Fixture) -> None:
    assert not fixture.verify("ann", b"x" * 100_000)
    assert all(len(password) <= PASSWORD_BYTES_MAX for _, password, _ in fixture.checks)


# ---- back-off


class QuickSleep:
    """Notes how long everybody has to wait, and lets nobody wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits: list[float] = []
        monkeypatch.setattr(login_module.asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def test_whoever_fails_often_waits_and_others_do_not(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture.catalog.apply(commands.PutUser(User("bob", hash_known_password(b"right", SALT))))
    assert fixture.verify("bob", b"right")
    fixture.logins.configure(AuthSettings(failures_max=3))
    slept = QuickSleep(monkeypatch)
    for number in range(3):
        assert not fixture.verify("ann", b"wrong%d" % number)
    assert slept.waits == []
    assert not fixture.verify("ann", b"wrong")
    assert len(slept.waits) == 1 and 0.0 < slept.waits[0] <= 1.0
    # Even the right password waits, or guessing would go on.
    assert not fixture.recognise("ann", b"right")
    assert fixture.verify("ann", b"right")
    assert len(slept.waits) == 2
    # A success of another user at this address is known already, and at once.
    assert fixture.recognise("bob", b"right")
    # And the success has cleared ann.
    assert fixture.recognise("ann", b"right")


def test_a_line_that_is_too_long_is_refused_without_a_look(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    fixture.logins.configure(AuthSettings(failures_max=1))
    QuickSleep(monkeypatch)
    for number in range(20):
        fixture.verify("ann", b"wrong%d" % number)
    assert len(fixture.checks) < 10
    assert fixture.logins.refused_total == 20


def test_workers_that_come_together_with_the_same_password_are_one_try(fixture: Fixture) -> None:
    fixture.logins.configure(AuthSettings(failures_max=2))

    async def crowd() -> list[bool]:
        return await asyncio.gather(*(fixture.attempt("ann", b"right") for _ in range(50)))

    assert asyncio.run(crowd()) == [True] * 50
    assert len(fixture.checks) == 1


def test_hanging_up_saves_nobody_a_failure(fixture: Fixture) -> None:
    fixture.logins.configure(AuthSettings(failures_max=3))

    async def hang_up() -> None:
        for number in range(5):
            attempt = asyncio.ensure_future(fixture.attempt("ann", b"guess%d" % number))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            attempt.cancel()
            await asyncio.wait([attempt])

    asyncio.run(hang_up())
    assert not fixture.recognise("ann", b"right")
    assert fixture.logins.backoff.is_held_up("ann", HERE, time.monotonic())


def test_new_settings_that_cannot_be_used_change_nothing(fixture: Fixture) -> None:
    before = fixture.logins.settings
    with pytest.raises(ValueError, match="public key"):
        fixture.logins.configure(AuthSettings(tokens=TokenSettings(keys={"k": "no key"})))
    assert fixture.logins.settings is before


def test_without_tokens_a_bearer_is_refused(fixture: Fixture) -> None:
    with pytest.raises(LoginRefused):
        asyncio.run(fixture.logins.authenticate_token("eyJhbGciOiJub25lIn0.e30.AA", HERE, "http"))
    assert fixture.logins.attempts["http"].failed == 1
