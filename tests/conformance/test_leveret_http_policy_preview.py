"""What a policy would change, told before it is set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leveret.testing import Broker
from tests.http_client import Api


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with Broker() as running:
        made = Api(running)
        for queue in ("a1", "a2", "b1"):
            assert made.put(f"/queues/%2F/{queue}").status == 201
        known = {"pattern": "^a1$", "definition": {"max-length": 7}, "apply-to": "queues", "priority": 5}
        assert made.put("/policies/%2F/known", known).status == 201
        yield made


def test_a_preview_says_what_would_change_and_changes_nothing(api: Api) -> None:
    wanted = {"pattern": "^a", "definition": {"max-length": 9}, "apply-to": "queues"}
    reply = api.post("/policies/%2F/new/preview", wanted)
    nothing = {"policy": None, "definition": {}}
    change = {
        "kind": "queue",
        "name": "a2",
        "before": nothing,
        "after": {"policy": "new", "definition": {"max-length": 9}},
    }
    assert (reply.status, reply.body) == (200, {"matched": 1, "changed": 1, "changes": [change]})
    assert api.get("/policies/%2F/new").status == 404
    assert api.get("/queues/%2F/a2").body["policy"] is None
    assert api.get("/audit?action=preview").body == []


def test_a_preview_of_a_policy_that_is_there_compares_with_it(api: Api) -> None:
    wanted = {"pattern": "^b1$", "definition": {"max-length": 7}, "apply-to": "queues", "priority": 5}
    found = api.post("/policies/%2F/known/preview", wanted).body
    assert {one["name"]: one["after"]["policy"] for one in found["changes"]} == {"a1": None, "b1": "known"}


def test_exchanges_are_looked_at_where_the_policy_is_for_them(api: Api) -> None:
    wanted = {"pattern": "^amq\\.topic$", "definition": {"alternate-exchange": "x"}, "apply-to": "exchanges"}
    found = api.post("/policies/%2F/alternate/preview", wanted).body
    assert [(one["kind"], one["name"]) for one in found["changes"]] == [("exchange", "amq.topic")]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"pattern": "^a"},
        {"pattern": "(", "definition": {"max-length": 1}},
        {"pattern": "a", "definition": {"x": 1}},
    ],
)
def test_what_could_not_be_set_is_refused_in_the_same_words(api: Api, body: dict[str, object]) -> None:
    preview, put = api.post("/policies/%2F/bad/preview", body), api.put("/policies/%2F/bad", body)
    assert preview.status == put.status == 400
    assert preview.body == put.body
