"""The pytest plugin as its users have it: inner runs of pytest, far from this project's settings."""

from __future__ import annotations

import pytest

from tests.unit.node.process import SOURCES

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "leveret.pytest_plugin", "-p", "no:cacheprovider", "-W", "error")


@pytest.fixture(autouse=True)
def plain_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def test_a_blocking_client_is_connected_to_the_tests_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from leveret.client import State
        from leveret.wire.queue_methods import QueueDeclare

        seen = []

        def test_connection(leveret_broker, leveret_connection):
            assert leveret_connection.address.port == leveret_broker.port
            leveret_connection.channel().call(QueueDeclare("orders"))
            leveret_broker.queue("orders").assert_empty()
            seen.append(leveret_connection)

        def test_it_was_closed():
            assert seen[0].state is State.CLOSED
        """
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=2)


def test_an_asyncio_client_needs_no_other_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from leveret.wire.queue_methods import QueueDeclare

        def test_connect(leveret_broker, leveret_connect):
            async def declare():
                async with leveret_connect(name="mine") as connection:
                    await (await connection.channel()).call(QueueDeclare("orders"))
                    await asyncio.to_thread(leveret_broker.queue("orders").assert_empty)

            asyncio.run(declare())
        """
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


def test_an_asyncio_client_in_a_test_that_anyio_runs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from leveret.wire.queue_methods import QueueDeclare

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.fixture
        async def connection(leveret_connect):
            async with leveret_connect() as connection:
                yield connection

        @pytest.mark.anyio
        async def test_connect(leveret_broker, connection):
            await (await connection.channel()).call(QueueDeclare("orders"))
            leveret_broker.queue("orders").assert_empty()
        """
    )
    pytester.runpytest_subprocess(*PLUGIN, "-p", "anyio").assert_outcomes(passed=1)


def test_a_failure_shows_the_queue_and_not_our_code(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pika

        def test_orders(leveret_broker):
            connection = pika.BlockingConnection(pika.URLParameters(leveret_broker.url))
            channel = connection.channel()
            channel.queue_declare("orders")
            channel.basic_publish("", "orders", b"one tea")
            connection.close()
            leveret_broker.queue("orders").assert_published(body="two teas", within_s=0.1)
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "-W", "default")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * AssertionError: no message with body 'two teas' came to queue 'orders' within 0.1 s; 1 message came",
            "E * the nearest: with key 'orders': b'one tea'",
            "E * body: b'one tea', wanted b'two teas'",
        ]
    )
    result.stdout.no_fnmatch_line("*watched_queue.py*")


def test_the_fixtures_are_listed_with_their_words(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*PLUGIN, "--fixtures")
    result.stdout.fnmatch_lines(["leveret_broker*", "leveret_connection*", "leveret_connect *"])


def test_a_plugin_that_is_not_used_imports_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_other():
            assert not {"leveret.client", "leveret.testing", "msgspec", "asyncio.streams"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
