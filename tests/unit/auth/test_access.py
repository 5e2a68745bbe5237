"""Permissions: regular expressions that are searched in a name, remembered decisions, and the words of a refusal."""

from __future__ import annotations

import pytest

from leveret.auth import identity as identity_module
from leveret.auth.access import CONFIGURE, READ, REMEMBERED_MAX, WRITE, Access, Right, has, require, sees_vhost
from leveret.auth.identity import CatalogUser, TokenBearer
from leveret.auth.scopes import read_scopes
from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.records import ExchangeRecord, Permission, TopicPermission, User
from leveret.errors import Forbidden, SoftError
from tests.unit.catalog.naming import catalog_of


def access_with(configure: str = "", write: str = "", read: str = "") -> tuple[Access, Catalog]:
    catalog = catalog_of(Permission("ann", "/", configure, write, read))
    return Access(CatalogUser(catalog, "ann"), "/"), catalog


def allows(access: Access, kind: str, name: str) -> bool:
    try:
        access.check_queue(kind, name)
    except SoftError:
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        (".*", "anything", True),
        (".*", "", True),
        ("orders", "orders", True),
        ("orders", "my.orders.2", True),
        ("^orders", "my.orders", False),
        ("^orders$", "orders.2", False),
        ("^(a|b)-", "b-queue", True),
        ("^(a|b)-", "c-queue", False),
        ("ORDERS", "orders", False),
        ("", "anything", False),
        ("", "", True),
        ("^$", "anything", False),
    ],
)
def test_a_pattern_is_searched_in_the_name(pattern: str, name: str, allowed: bool) -> None:
    access, _ = access_with(write=pattern)
    assert allows(access, WRITE, name) is allowed


def test_configure_write_and_read_are_apart() -> None:
    access, _ = access_with(configure="^c", write="^w", read="^r")
    matrix = {name: [allows(access, kind, name) for kind in (CONFIGURE, WRITE, READ)] for name in ("c", "w", "r", "x")}
    assert matrix == {
        "c": [True, False, False],
        "w": [False, True, False],
        "r": [False, False, True],
        "x": [False, False, False],
    }


def test_without_a_permission_nothing_is_allowed() -> None:
    catalog = catalog_of(Permission("bob", "/", ".*", ".*", ".*"), Permission("ann", "other", ".*", ".*", ".*"))
    access = Access(CatalogUser(catalog, "ann"), "/")
    assert not any(allows(access, kind, "q") for kind in (CONFIGURE, WRITE, READ))


def test_the_default_exchange_is_known_as_amq_default() -> None:
    access, _ = access_with(write=r"^amq\.default$")
    access.check_exchange(WRITE, "")
    with pytest.raises(SoftError) as refusal:
        access_with(write="^q$")[0].check_exchange(WRITE, "")
    assert refusal.value.text == "access to exchange 'amq.default' in vhost '/' refused for user 'ann'"


@pytest.mark.parametrize("resource", ["queue", "exchange"])
def test_a_refusal_names_resource_vhost_and_user(resource: str) -> None:
    access, _ = access_with()
    with pytest.raises(SoftError) as refusal:
        getattr(access, f"check_{resource}")(READ, "secret")
    assert refusal.value.code == 403
    assert refusal.value.text == f"access to {resource} 'secret' in vhost '/' refused for user 'ann'"


def test_a_decision_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    access, _ = access_with(write="^q")
    searches = []
    search = identity_module.is_found
    monkeypatch.setattr(identity_module, "is_found", lambda *given: searches.append(given) or search(*given))
    for name in ("q", "q", "other", "other", "q"):
        allows(access, WRITE, name)
    assert searches == [("^q", "q"), ("^q", "other")]


@pytest.mark.parametrize("before", [True, False])
def test_a_decision_is_forgotten_when_told_so(before: bool) -> None:
    access, catalog = access_with(write=".*" if before else "")
    assert allows(access, WRITE, "q") is before
    catalog.apply(commands.PutPermission(Permission("ann", "/", "", "" if before else ".*", "")))
    assert allows(access, WRITE, "q") is before
    access.forget()
    assert allows(access, WRITE, "q") is not before


def test_remembered_decisions_are_bounded_and_stay_right() -> None:
    access, _ = access_with(write="^q")
    for number in range(REMEMBERED_MAX * 3):
        assert allows(access, WRITE, f"q{number}")
        assert not allows(access, WRITE, f"x{number}")
        assert len(access._remembered) <= REMEMBERED_MAX
    assert access._remembered


# ---- routing keys

TOPIC = ExchangeRecord("/", "t", "topic", True, False, False, {})
DELAYED = ExchangeRecord("/", "d", "x-delayed-message", True, False, False, {"x-delayed-type": "topic"})
DIRECT = ExchangeRecord("/", "x", "direct", True, False, False, {})


def topic_access() -> tuple[Access, Catalog]:
    patterns = [TopicPermission("ann", "/", name, "^w", "^r") for name in ("t", "d", "x")]
    catalog = catalog_of(Permission("ann", "/", "", ".*", ".*"), *patterns)
    return Access(CatalogUser(catalog, "ann"), "/"), catalog


@pytest.mark.parametrize("exchange", [TOPIC, DELAYED], ids=lambda record: record.kind)
def test_a_key_is_asked_for_where_exchanges_route_by_topic(exchange: ExchangeRecord) -> None:
    access, _ = topic_access()
    assert access.has_topics(exchange)
    access.check_topic(WRITE, exchange, "w.a")
    access.check_topic(READ, exchange, "r.a")
    with pytest.raises(SoftError) as refusal:
        access.check_topic(WRITE, exchange, "r.a")
    assert refusal.value.code == 403
    assert refusal.value.text == (
        f"access to topic 'r.a' in exchange '{exchange.name}' in vhost '/' refused for user 'ann'"
    )


def test_other_exchanges_take_every_key() -> None:
    access, _ = topic_access()
    assert not access.has_topics(DIRECT)
    access.check_topic(WRITE, DIRECT, "anything")


def test_keys_that_were_decided_are_forgotten_and_bounded() -> None:
    access, catalog = topic_access()
    access.check_topic(WRITE, TOPIC, "w")
    catalog.apply(commands.PutTopicPermission(TopicPermission("ann", "/", "t", "^x", "")))
    access.check_topic(WRITE, TOPIC, "w")
    access.forget()
    with pytest.raises(SoftError):
        access.check_topic(WRITE, TOPIC, "w")
    for number in range(REMEMBERED_MAX * 2):
        access.check_topic(WRITE, TOPIC, f"x{number}")
        assert len(access._remembered) <= REMEMBERED_MAX


def test_new_rights_take_the_place_of_old_ones() -> None:
    access, _ = access_with(write=".*")
    assert allows(access, WRITE, "q")
    access.renew(TokenBearer("ann", read_scopes(["read:*/*"], ""), None))
    assert not allows(access, WRITE, "q") and allows(access, READ, "q")


# ---- operators


def operator(*tags: str) -> CatalogUser:
    return CatalogUser(catalog_of(User("ann", "", tags), Permission("ann", "/", "", "", "")), "ann")


@pytest.mark.parametrize(
    ("tag", "rights"),
    [
        ("administrator", {"MANAGEMENT", "POLICYMAKER", "MONITORING", "ADMINISTRATOR"}),
        ("monitoring", {"MANAGEMENT", "MONITORING"}),
        ("policymaker", {"MANAGEMENT", "POLICYMAKER"}),
        ("management", {"MANAGEMENT"}),
        ("impersonator", {"IMPERSONATOR"}),
        ("other", set()),
    ],
)
def test_what_a_tag_gives(tag: str, rights: set[str]) -> None:
    assert {right.name for right in Right if has(operator(tag), right)} == rights


def test_a_right_is_required_and_the_virtual_host_must_be_open() -> None:
    require(operator("management"), Right.MANAGEMENT)
    require(operator("management"), Right.MANAGEMENT, "/")
    with pytest.raises(Forbidden, match="Not administrator user"):
        require(operator("management"), Right.ADMINISTRATOR)
    # An administrator, too, needs a permission there.
    with pytest.raises(Forbidden, match="User not authorised to access virtual host"):
        require(operator("administrator"), Right.MANAGEMENT, "other")


def test_who_sees_which_virtual_hosts() -> None:
    seen = {tag: [sees_vhost(operator(tag), vhost) for vhost in ("/", "other")]
            for tag in ("administrator", "monitoring", "policymaker", "management", "none")}  # fmt: skip
    assert seen == {
        "administrator": [True, True],
        "monitoring": [True, True],
        "policymaker": [True, False],
        "management": [True, False],
        "none": [False, False],
    }
