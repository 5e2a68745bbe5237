"""The HTTP API against requests of every kind: those that its document describes, and decent ones that were spoiled.

Whatever comes, the answer is one that the document names, and no mistake of the broker's; a neighbour on another
virtual host notices nothing; nothing is left when what was made is deleted."""

from __future__ import annotations

import json
import logging
import random
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings

from leveret.testing import Broker
from tests.fuzz.effort import is_long, scaled
from tests.fuzz.http_ground import (
    ADMIN,
    ALIKE,
    DECENT,
    KNOWN,
    MANAGER,
    ODD_NAMES,
    PASSWORD,
    QUIET,
    Ground,
    clear,
    furnish,
    spoiled,
)
from tests.http_client import Api

with warnings.catch_warnings():
    # Not ours.
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]
# They answer as long as something happens, and have tests of their own below.
ENDLESS = ("/api/events", "/api/tap")
SEED = 20250101
EXAMPLES, SPOILED = 4, 25
DEADLINE_S = 20
ODD_QUERIES = ["", "1", "-1", "true", "x", "9" * 30, "(a|a)+b", "5", "name", "auto", "a.b"]
ODD_TAPS = ["", "/", "q", "s", "x", "t", "amq.default", "1", "0.5", "-1", "nan", "a.#", "9" * 20]


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with Broker() as broker:
        made = Ground(broker)
        yield made
        made.close()


@pytest.fixture(autouse=True)
def _nothing_goes_wrong(ground: Ground, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING):
        yield
    assert not [record for record in caplog.records if record.exc_info], "the broker logged a mistake of its own"
    ground.check_neighbour()


def operations(ground: Ground) -> list[Any]:
    document = ground.api.get("/openapi.json").body
    found = [result.ok() for result in schemathesis.openapi.from_dict(document).get_all_operations()]
    return [one for one in found if one.path not in ENDLESS]


def check(answer: requests.Response, label: str) -> None:
    """What is unwell may say so; nothing else is a 5xx."""
    if "/health/checks/" in label or "/aliveness-test/" in label:
        assert answer.status_code < 500 or answer.status_code == 503, answer.text
    else:
        assert answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text
    assert "X-Evil" not in answer.headers and "X" not in answer.headers


@pytest.mark.parametrize("user", [ADMIN, MANAGER])
def test_every_operation_as_the_document_describes_it(ground: Ground, user: str) -> None:
    session = requests.Session()
    session.auth = (user, PASSWORD)
    many = settings(
        max_examples=scaled(EXAMPLES if user == ADMIN else EXAMPLES // 2),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def ask(case: Any) -> None:
        if isinstance(case.body, dict) and "wait" in case.body:
            case.body["wait"] = 0
        answer = case.call(base_url=ground.broker.management_url, session=session, timeout=DEADLINE_S)
        check(answer, case.operation.label)
        case.validate_response(answer, checks=CHECKS)

    for operation in operations(ground):
        seed(SEED)(many(given(operation.as_strategy())(ask)))()
        if operation.method.upper() != "GET":
            furnish(ground.api)
    assert Api(ground.broker, user, PASSWORD).get("/whoami").status == 200


@pytest.mark.parametrize("user", [ADMIN, MANAGER])
def test_decent_requests_that_were_spoiled(ground: Ground, user: str) -> None:
    """With names of things that exist, so that requests get further than to a 404."""
    dice = random.Random(SEED if not is_long() else None)
    session = requests.Session()
    session.auth = (user, PASSWORD)
    for operation in operations(ground):
        label = operation.label
        decent = DECENT.get(ALIKE.get(label, label))
        documented = set(operation.definition.raw["responses"])
        for _ in range(scaled(SPOILED if decent is not None else 4)):
            path = operation.path
            for parameter in operation.path_parameters:
                known = KNOWN.get(parameter.name, ["x"])
                chosen = dice.choice(known if dice.random() < 0.9 else ODD_NAMES)
                path = path.replace("{" + parameter.name + "}", quote(chosen, safe="", errors="surrogateescape"))
            query = {one.name: dice.choice(ODD_QUERIES) for one in operation.query if dice.random() < 0.3}
            body = None if operation.method.upper() == "GET" else json.dumps(spoiled(decent or {}, dice))
            answer = session.request(
                operation.method.upper(),
                f"{ground.broker.management_url}{path}?{urlencode(query)}",
                data=body,
                headers={"Content-Type": "application/json", "X-Reason": "x" * dice.choice([0, 10, 300])},
                timeout=DEADLINE_S,
            )
            check(answer, label)
            # A spoiled path may lead to another route.
            assert str(answer.status_code) in documented | {"404", "405"}, (
                f"{label}: {answer.status_code} {answer.text}"
            )
        if operation.method.upper() != "GET":
            furnish(ground.api)


def test_odd_names_in_every_place(ground: Ground) -> None:
    session = requests.Session()
    session.auth = (ADMIN, PASSWORD)
    for operation in operations(ground):
        places = [parameter.name for parameter in operation.path_parameters]
        decent = DECENT.get(ALIKE.get(operation.label, operation.label), {})
        for odd_place in places:
            for odd in ODD_NAMES:
                path = operation.path
                for place in places:
                    chosen = odd if place == odd_place else KNOWN.get(place, ["x"])[0]
                    path = path.replace("{" + place + "}", quote(chosen, safe="", errors="surrogateescape"))
                answer = session.request(
                    operation.method.upper(),
                    ground.broker.management_url + path,
                    json=None if operation.method.upper() == "GET" else decent,
                    timeout=DEADLINE_S,
                )
                check(answer, operation.label)
        if operation.method.upper() != "GET":
            furnish(ground.api)


def test_what_vanishes_while_it_is_asked_for(ground: Ground) -> None:
    """A crowd that declares, fills, reads, leases, empties and deletes one queue, all at once."""
    message = {
        "routing_key": "race",
        "properties": {"delivery_mode": 2},
        "payload": "x" * 5000,
        "payload_encoding": "string",
    }
    get = {"ackmode": "ack_requeue_true", "count": 50, "encoding": "auto"}
    replay = {"mode": "target", "exchange": "x", "wait": 0}
    steps: list[tuple[str, str, Any]] = [
        ("PUT", "/queues/%2F/race", {"durable": True}),
        *[("POST", "/exchanges/%2F/amq.default/publish", message)] * 6,
        ("POST", "/queues/%2F/race/get", get),
        ("POST", "/queues/%2F/race/get", {**get, "ackmode": "reject_requeue_false"}),
        ("GET", "/queues/%2F/race/get?count=20&lease_s=1", None),
        ("GET", "/queues/%2F/race/peek?count=50", None),
        ("GET", "/queues/%2F/race/peek?count=50&state=unacked", None),
        ("GET", "/queues/%2F/race/unacked", None),
        ("POST", "/queues/%2F/race/nack", {"delivery_tag": 0, "multiple": True}),
        ("POST", "/queues/%2F/race/reprocess", replay),
        ("PUT", "/queues/%2F/race/pause", {}),
        ("PUT", "/queues/%2F/race/resume", {}),
        ("GET", "/dead-letters", None),
        ("GET", "/queues?sort=messages", None),
        ("GET", "/tap?queue=race&life_s=1&count=1", None),
        ("DELETE", "/queues/%2F/race/contents", None),
        ("DELETE", "/queues/%2F/race", None),
    ]

    def crowd(number: int) -> None:
        dice = random.Random(SEED + number)
        for _ in range(scaled(60)):
            method, path, body = dice.choice(steps)
            reply = ground.api.ask(method, path, body)
            assert reply.status < 500, (method, path, reply)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(crowd, range(8)))


@pytest.mark.parametrize("path", ENDLESS)
def test_streams_of_events_end_when_they_are_told_to(ground: Ground, path: str) -> None:
    dice = random.Random(SEED)
    document = ground.api.get("/openapi.json").body
    names = [parameter["name"] for parameter in document["paths"][path]["get"]["parameters"]]
    for _ in range(scaled(25)):
        query = {one: dice.choice(ODD_TAPS) for one in names if dice.random() < 0.5}
        query.update({"once": "true"} if path == "/api/events" else {"life_s": "1", "count": "1"})
        answer = requests.get(
            f"{ground.broker.management_url}{path}?{urlencode(query)}", auth=(ADMIN, PASSWORD), timeout=DEADLINE_S
        )
        check(answer, path)
        assert answer.status_code in (200, 400, 401, 404), answer.text
    assert ground.broker.call(lambda node: len(node.management.services.taps)) == 0
    assert ground.broker.call(lambda node: node.broker.events.listener_count) == 0


def test_nothing_is_left(ground: Ground) -> None:
    """The last one: after all that, deleting what there is leaves nothing behind."""
    ground.api.get("/queues/%2F/q/get?count=2")
    clear(ground.api)
    assert ground.broker.call(lambda node: len(node.http_leases)) == 0
    assert ground.broker.call(lambda node: len(node.broker.movers)) == 0
    left = ground.broker.call(lambda node: {name: len(vhost.queues) for name, vhost in node.broker.vhosts.items()})
    assert left == {"/": 0, QUIET: 1}
    assert ground.broker.call(lambda node: len(node.broker.connections)) == 1
