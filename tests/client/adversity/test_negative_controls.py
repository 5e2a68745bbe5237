"""The checkers turn red when the client lies: the same loads and faults, with the mistakes that they must find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from leveret.client import Producer
from leveret.client.errors import ClientError
from leveret.client.publishing.in_flight import InFlight
from tests.client.adversity.checkers import findings
from tests.client.adversity.ledger import Ledger
from tests.client.adversity.load import Load
from tests.client.amqp_server import AmqpServer
from tests.client.faults import Step
from tests.client.proxy import RESET, Proxy

CUTS = 12


def at_any_time(proxy: Proxy) -> None:
    proxy.reset_all()


def instead_of_a_confirm(proxy: Proxy) -> None:
    """The broker has taken messages, and its answer is the first thing that does not arrive."""
    proxy.at(Step("server", "basic.ack", when="before"), RESET)


def broken_load(
    server: AmqpServer,
    spoil: Callable[[Load], None],
    monkeypatch: pytest.MonkeyPatch,
    cut: Callable[[Proxy], None] = at_any_time,
    cuts: int = CUTS,
) -> list[str]:
    """What the checkers say of a load with something wrong in it."""
    ledger = Ledger()
    # Nobody needs to wait long for what will not come.
    monkeypatch.setattr("tests.client.adversity.load.SETTLE_S", 1.0)

    async def main(proxy: Proxy) -> Load:
        load = Load(proxy.url, ledger)
        spoil(load)
        async with load:
            spoil(load)
            for _ in range(cuts):
                await asyncio.sleep(0.03)
                cut(proxy)
                await load.crash_consumers()
                await load.connection.ready()
            await load.settle()
        return load

    with Proxy((server.host, server.port)) as proxy:
        load = asyncio.run(main(proxy))
    return [*findings(ledger), *load.findings]


def test_a_good_client_is_found_good(leveret_server: AmqpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not broken_load(leveret_server, lambda load: None, monkeypatch)


def test_success_before_the_confirm_is_found(leveret_server: AmqpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that gives up what it has promised: as one without confirms does, if somebody believes it."""

    async def hasty(producer: Producer, body: bytes) -> None:
        confirmation = await producer.submit(body)
        asyncio.get_running_loop().call_later(0.01, confirmation.cancel)

    def spoil(load: Load) -> None:
        load.say = hasty

    assert any(finding.startswith("lost") for finding in broken_load(leveret_server, spoil, monkeypatch))


def test_a_lost_channel_taken_for_a_confirm_is_found(
    leveret_server: AmqpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(transit: InFlight, reason: ClientError) -> None:
        codec = transit.codec
        if codec is not None:
            transit.answered(codec)
            transit.codec = None
            for message in codec.abandon():
                transit._fail(message, None)

    monkeypatch.setattr(InFlight, "ended", ended)
    assert any(finding.startswith("lost") for finding in broken_load(leveret_server, lambda load: None, monkeypatch))


def test_an_ack_before_the_work_is_found(leveret_server: AmqpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(load: Load) -> None:
        for reader in load.readers.values():
            reader.acks_first = True

    assert any(finding.startswith("lost") for finding in broken_load(leveret_server, spoil, monkeypatch))


def test_what_arrives_twice_is_found(leveret_server: AmqpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a queue that does not know what it had, some of what is sent again is there twice."""

    def spoil(load: Load) -> None:
        load.forgetful = True

    # Most of the confirms that are lost are other queues': it takes some more.
    found = broken_load(leveret_server, spoil, monkeypatch, instead_of_a_confirm, cuts=4 * CUTS)
    assert any(finding.startswith("twice") for finding in found)
