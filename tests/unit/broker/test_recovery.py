"""A broker that starts again: what its store has, and the defaults only where there was nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leveret.auth.identity import CatalogUser
from leveret.broker.broker import Broker
from leveret.broker.recovery import recover
from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.records import Permission, Policy, QueueRecord, TopicPermission, User
from leveret.catalog.unusable import with_problems
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.store import Store, StoreSettings


@contextmanager
def started(root: Path) -> Iterator[Broker]:
    store = Store(root, StoreSettings(), lambda: 1)
    broker = Broker(Dice(), Clock(), store)
    try:
        recover(broker)
        yield broker
        # What a commit would do to the catalog's log.
        store.catalog.rewrite(store.snapshot())
    finally:
        broker.close()
        store.abandon()


def names(catalog: Catalog) -> tuple[list[str], list[str]]:
    return sorted(catalog.vhosts), sorted(catalog.users)


def test_an_empty_directory_gets_the_defaults_once(tmp_path: Path) -> None:
    for _ in range(2):
        with started(tmp_path) as broker:
            assert names(broker.catalog) == (["/"], ["guest"])


def test_what_was_there_is_there_again(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        broker.apply(commands.PutUser(User("ann", "hash", ("monitoring",))))
    with started(tmp_path) as broker:
        assert broker.catalog.users["ann"] == User("ann", "hash", ("monitoring",))


def test_an_operator_who_deletes_guest_does_not_get_guest_back(tmp_path: Path) -> None:
    with started(tmp_path) as broker:
        broker.apply(commands.DeleteUser("guest"))
    with started(tmp_path) as broker:
        assert names(broker.catalog) == (["/"], [])


def test_without_a_store_there_are_the_defaults() -> None:
    broker = Broker(Dice(), Clock())
    recover(broker)
    assert names(broker.catalog) == (["/"], ["guest"])
    broker.close()


def test_patterns_of_older_versions_are_safe_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Such as RabbitMQ and older versions take: the permission allows nothing, the policy applies to nothing."""
    everything_but = "^(?!secret).*"
    with started(tmp_path) as broker:
        broker.apply(commands.PutPermission(Permission("guest", "/", everything_but, ".*", ".*")))
        broker.apply(commands.PutTopicPermission(TopicPermission("guest", "/", "amq.topic", r"(.)\1", ".*")))
        broker.apply(commands.PutPolicy(Policy("/", "old", everything_but, "all", 9, {"max-length": 1})))
        broker.apply(commands.PutPolicy(Policy("/", "good", ".*", "all", 0, {"max-length": 2})))
    with caplog.at_level(logging.ERROR, "leveret"), started(tmp_path) as broker:
        guest = CatalogUser(broker.catalog, "guest")
        assert not guest.allows("configure", "/", "q") and guest.allows("write", "/", "q")
        assert not guest.allows_topic("write", "/", "amq.topic", "aa")
        record = QueueRecord("/", "q", "classic", True, False, 0, {})
        assert broker.catalog.policies["/"].of_queue(record).name == "good"
        listed = with_problems({"user": "guest"}, broker.catalog.permissions["guest", "/"])
    told = [each.__dict__["facts"] for each in caplog.records if each.levelname == "ERROR"]
    assert [(facts["name"], facts["field"]) for facts in told] == [
        ("guest", "configure"),
        ("guest amq.topic", "write"),
        ("old", "pattern"),
    ]
    assert list(listed["pattern_problems"]) == ["configure"]
    assert "(?! is not supported" in listed["pattern_problems"]["configure"]
