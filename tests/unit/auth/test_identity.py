"""Identities: a user's answers follow the catalog, a token's bearer has what was signed."""

from __future__ import annotations

from leveret.auth.identity import CatalogUser, TokenBearer
from leveret.auth.scopes import read_scopes
from leveret.catalog import commands
from leveret.catalog.records import Permission, TopicPermission, User
from tests.unit.catalog.naming import catalog_of


def test_a_user_is_what_the_catalog_says_now() -> None:
    catalog = catalog_of(
        User("ann", "", ("management",), {"max-connections": 3}), Permission("ann", "/", "c", "w", "r")
    )
    ann = CatalogUser(catalog, "ann")
    assert (ann.tags, ann.exists, ann.expires_at) == (("management",), True, None)
    assert (ann.limit("max-connections"), ann.limit("max-channels")) == (3, None)
    assert [ann.allows(kind, "/", "w") for kind in ("configure", "write", "read")] == [False, True, False]
    assert ann.may_enter("/") and not ann.may_enter("other")
    catalog.apply(commands.PutUser(User("ann", "", ("administrator",))))
    catalog.apply(commands.DeletePermission("ann", "/"))
    assert ann.tags == ("administrator",) and not ann.may_enter("/") and not ann.allows("write", "/", "w")
    catalog.apply(commands.DeleteUser("ann"))
    assert (ann.tags, ann.exists, ann.limit("max-connections")) == ((), False, None)


def test_keys_matter_only_where_there_is_a_topic_permission() -> None:
    permission = TopicPermission("ann", "/", "amq.topic", "^w", "^r")
    ann = CatalogUser(catalog_of(Permission("ann", "/", ".*", ".*", ".*"), permission), "ann")
    assert ann.has_topics("/", "amq.topic") and not ann.has_topics("/", "other")
    assert ann.allows_topic("write", "/", "amq.topic", "w.x") and not ann.allows_topic("write", "/", "amq.topic", "r")
    assert ann.allows_topic("read", "/", "amq.topic", "r.x") and not ann.allows_topic("read", "/", "amq.topic", "w")
    assert ann.allows_topic("write", "/", "other", "anything")


def test_a_bearer_has_what_the_token_says() -> None:
    bearer = TokenBearer("svc", read_scopes(["rabbitmq.write:*/x/k", "rabbitmq.tag:management"], "rabbitmq."), 5.0)
    assert (bearer.name, bearer.tags, bearer.exists, bearer.expires_at) == ("svc", ("management",), True, 5.0)
    assert bearer.may_enter("any") and bearer.allows("write", "/", "x") and not bearer.allows("read", "/", "x")
    assert bearer.has_topics("/", "x") and bearer.allows_topic("write", "/", "x", "k")
    assert bearer.limit("max-connections") is None
