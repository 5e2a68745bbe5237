"""docs/client-topology.md is one script from top to bottom, and runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from pathlib import Path

from leveret.client.topology.arguments import EXCHANGE_ARGUMENTS, QUEUE_ARGUMENTS
from tests.client import topology_scene

PAGE = Path(__file__).parents[2] / "docs" / "client-topology.md"
# Gives connections their topology, see there.
assert topology_scene


def test_the_page_runs() -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(snippets) > 10
    code = compile("\n".join(snippets), str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert code.co_flags & inspect.CO_COROUTINE

    async def run() -> None:
        async with asyncio.timeout(60):
            await eval(code, {"__name__": "page"})

    asyncio.run(run())


def test_the_page_has_every_argument() -> None:
    text = PAGE.read_text().partition("## Arguments")[2]
    for field, argument in {**QUEUE_ARGUMENTS, **EXCHANGE_ARGUMENTS}.items():
        assert f"`{field}`" in text and f"`{argument.wire}`" in text
