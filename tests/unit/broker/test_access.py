"""Permissions: regular expressions that are searched in a name, remembered decisions, and the words of a refusal."""

from __future__ import annotations

import pytest

from leveret.broker import identity as identity_module
from leveret.broker.access import CONFIGURE, READ, REMEMBERED_MAX, WRITE, Access
from leveret.broker.identity import CatalogUser
from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.records import Permission
from leveret.errors import SoftError
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
    search = identity_module.re.search
    monkeypatch.setattr(identity_module.re, "search", lambda *given: searches.append(given) or search(*given))
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
