"""A node: starts on a running loop, takes its settings to its sessions, and stops leaving nothing."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from leveret.errors import StartupError
from leveret.node.config.loading import load_settings
from leveret.node.config.settings import Settings
from leveret.node.node import Node


def settings(data_dir: Path, **overrides: object) -> Settings:
    chosen = {name.replace("__", "."): value for name, value in overrides.items()}
    return load_settings(None, {"listen.port": 0, "data_dir": str(data_dir), **chosen})


def test_a_node_listens_between_start_and_stop(tmp_path: Path) -> None:
    async def live() -> None:
        node = Node(settings(tmp_path))
        node.start()
        address = (node.host, node.port)
        with socket.create_connection(address, timeout=5):
            pass
        await node.stop()
        with pytest.raises(OSError):
            socket.create_connection(address, timeout=1)

    asyncio.run(live())


def test_a_node_that_cannot_listen_says_why_and_what_to_do(tmp_path: Path) -> None:
    async def live() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            node = Node(settings(tmp_path, listen__port=port))
            with pytest.raises(StartupError) as refusal:
                node.start()
            assert str(refusal.value) == (
                f"cannot listen on 127.0.0.1:{port}: Address already in use; is another broker running there?"
            )
            await node.stop()

    asyncio.run(live())


def test_stopping_waits_no_longer_than_told_for_clients_that_do_not_answer(tmp_path: Path) -> None:
    async def live() -> None:
        node = Node(settings(tmp_path))
        node.start()
        reader, writer = await asyncio.open_connection(node.host, node.port)
        writer.write(b"AMQP\x00\x00\x09\x01")
        await reader.readexactly(1)
        loop = asyncio.get_running_loop()
        started = loop.time()
        await node.stop(deadline_s=0.2)
        assert loop.time() - started < 2
        writer.close()

    asyncio.run(live())


def test_two_nodes_on_one_loop_share_nothing(tmp_path: Path) -> None:
    async def live() -> None:
        nodes = [Node(settings(tmp_path / "one")), Node(settings(tmp_path / "two"))]
        for node in nodes:
            node.start()
        assert nodes[0].port != nodes[1].port
        assert nodes[0].broker.vhosts["/"] is not nodes[1].broker.vhosts["/"]
        await nodes[0].stop()
        with socket.create_connection((nodes[1].host, nodes[1].port), timeout=5):
            pass
        await nodes[1].stop()

    asyncio.run(live())
