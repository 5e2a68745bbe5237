"""Pages about the client that are one script from top to bottom, and run."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import pytest

from leveret.client.publishing.pool import PoolStatistics
from leveret.client.rpc.caller import RpcCounters
from leveret.client.rpc.server import ServerCounters
from leveret.client.streams.stream import StreamCounters

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("client-observing.md", "client-retries.md", "client-rpc.md", "client-streams.md")


@pytest.mark.parametrize("name", PAGES)
def test_the_page_runs(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(snippets) > 4
    code = compile("\n".join(snippets), name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        async with asyncio.timeout(60):
            await eval(code, {"__name__": "page"})
        # A turn for those that were cancelled.
        await asyncio.sleep(0)
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    asyncio.run(run())


def test_the_page_has_every_number() -> None:
    """Of parts that list theirs in a Struct."""
    text = (DOCS / "client-observing.md").read_text(encoding="utf-8")
    for kind in (PoolStatistics, RpcCounters, ServerCounters, StreamCounters):
        for name in kind.__struct_fields__:
            assert f"`{name}`" in text, name
