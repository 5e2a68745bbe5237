"""Alerts are posted until they are taken, signed, one line for each address, and nobody waits for them."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from leveret.operations.reprocess.spec import ARCHIVED, Alert
from leveret.operations.webhooks import webhooks as module
from leveret.operations.webhooks.templates import Sender
from leveret.operations.webhooks.webhooks import PENDING_MAX, SIGNATURE, TIMESTAMP, WebhookOptions, Webhooks
from leveret.runtime.https import FetchError
from leveret.runtime.secret import Secret

ONE, TWO = "https://one.example/hook", "https://two.example/hook"
SENDER = Sender("leveret@here", "shop")


def alert(queue: str = "dead") -> Alert:
    return Alert(0, "/", queue, "7", ARCHIVED, 1, "/archive")


class Endpoint:
    """Takes what is posted, or answers as it is told."""

    def __init__(self) -> None:
        self.answers: dict[str, list[FetchError]] = {}
        self.taken: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.tries = 0

    async def post(self, url: str, ca: str, body: bytes, headers: dict[str, str], deadline_s: float) -> None:
        self.tries += 1
        if self.answers.get(url):
            raise self.answers[url].pop(0)
        self.taken.append((url, json.loads(body)["queue"]))
        self.headers.append(headers)
        self.bodies.append(body)


def options(*urls: str, **more: Any) -> WebhookOptions:
    return WebhookOptions(tuple(Secret(url) for url in urls), **{"pause_s": 0.001, **more})


def run(endpoint: Endpoint, work: Callable[[Webhooks], Coroutine[Any, Any, None]]) -> Webhooks:
    async def live() -> Webhooks:
        names = iter(range(10_000))
        hooks = Webhooks(lambda: f"id {next(names)}", lambda: 1_700_000_000.9, endpoint.post)
        await work(hooks)
        await hooks.stop()
        return hooks

    return asyncio.run(live())


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("waited in vain")


def test_every_address_gets_every_alert() -> None:
    endpoint = Endpoint()

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE, TWO, ONE), SENDER)
        hooks.send(alert("a"))
        hooks.send(alert("b"))
        await until(lambda: hooks.outcomes.delivered_total == 4)

    hooks = run(endpoint, work)
    assert sorted(endpoint.taken) == [(ONE, "a"), (ONE, "b"), (TWO, "a"), (TWO, "b")]
    assert (hooks.pending, hooks.outcomes.failed_total) == (0, 0)


def test_the_signature_covers_moment_and_body() -> None:
    endpoint = Endpoint()

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE, secret=Secret("s3cret")), SENDER)
        hooks.send(alert())
        await until(lambda: bool(endpoint.taken))

    run(endpoint, work)
    (headers,), (body,) = endpoint.headers, endpoint.bodies
    signed = headers[TIMESTAMP].encode() + b"." + body
    assert headers[TIMESTAMP] == "1700000000"
    assert headers[SIGNATURE] == "sha256=" + hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()


def test_without_a_secret_there_is_no_signature() -> None:
    endpoint = Endpoint()

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE), SENDER)
        hooks.send(alert())
        await until(lambda: bool(endpoint.taken))

    run(endpoint, work)
    assert SIGNATURE not in endpoint.headers[0]


@pytest.mark.parametrize("status", [0, 408, 429, 500, 503])
def test_what_may_pass_is_tried_again(status: int) -> None:
    endpoint = Endpoint()
    endpoint.answers[ONE] = [FetchError("no", status)] * 3

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE), SENDER)
        hooks.send(alert())
        await until(lambda: hooks.outcomes.delivered_total == 1)

    hooks = run(endpoint, work)
    assert (hooks.outcomes.retried_total, hooks.outcomes.failed_total) == (3, 0)


@pytest.mark.parametrize(("status", "tries"), [(400, 1), (404, 1), (302, 1), (503, 4)])
def test_what_is_refused_or_never_taken_is_given_up(status: int, tries: int) -> None:
    endpoint = Endpoint()
    endpoint.answers[ONE] = [FetchError("no", status)] * tries

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE, attempts_max=4), SENDER)
        hooks.send(alert("a"))
        await until(lambda: hooks.outcomes.failed_total == 1)
        # The next one has its own tries.
        hooks.send(alert("b"))
        await until(lambda: hooks.outcomes.delivered_total == 1)

    run(endpoint, work)
    assert endpoint.tries == tries + 1
    assert endpoint.taken == [(ONE, "b")]


def test_pauses_double_and_heed_what_the_server_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint()
    endpoint.answers[ONE] = [FetchError("no"), FetchError("no"), FetchError("no", 429, 7.0), FetchError("no", 429, 1e6)]
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def work(hooks: Webhooks) -> None:
        monkeypatch.setattr(module.asyncio, "sleep", noted)
        hooks.start(options(ONE, pause_s=1.0), SENDER)
        hooks.send(alert())
        while not endpoint.taken:
            await sleep(0)
        monkeypatch.undo()

    run(endpoint, work)
    assert pauses == [1.0, 2.0, 7.0, 300.0]


def test_a_dead_endpoint_holds_up_no_other_and_nobody_waits() -> None:
    endpoint = Endpoint()
    endpoint.answers[ONE] = [FetchError("no")] * 100_000

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE, TWO, pause_s=60.0), SENDER)
        for number in range(PENDING_MAX + 5):
            hooks.send(alert(str(number)))
            await asyncio.sleep(0)
        await until(lambda: hooks.outcomes.delivered_total == PENDING_MAX + 5)
        assert hooks.pending == PENDING_MAX
        assert hooks.outcomes.dropped_total == 5

    run(endpoint, work)
    assert {url for url, _ in endpoint.taken} == {TWO}


def test_a_reload_takes_along_what_waits() -> None:
    endpoint = Endpoint()
    endpoint.answers[ONE] = [FetchError("no")]

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE, pause_s=60.0), SENDER)
        hooks.send(alert())
        await until(lambda: hooks.outcomes.retried_total == 1)
        hooks.start(options(ONE, TWO), SENDER)
        await until(lambda: bool(endpoint.taken))
        hooks.start(options(TWO), SENDER)
        hooks.send(alert("next"))
        await until(lambda: len(endpoint.taken) == 2)

    run(endpoint, work)
    assert endpoint.taken == [(ONE, "dead"), (TWO, "next")]


def test_a_stop_tries_once_more() -> None:
    endpoint = Endpoint()
    endpoint.answers[ONE] = [FetchError("no")]

    async def work(hooks: Webhooks) -> None:
        hooks.start(options(ONE, pause_s=60.0), SENDER)
        hooks.send(alert())
        await until(lambda: hooks.outcomes.retried_total == 1)

    run(endpoint, work)
    assert endpoint.taken == [(ONE, "dead")]


def test_without_addresses_nothing_waits() -> None:
    async def work(hooks: Webhooks) -> None:
        hooks.start(options(), SENDER)
        hooks.send(alert())
        assert hooks.pending == 0

    run(Endpoint(), work)
