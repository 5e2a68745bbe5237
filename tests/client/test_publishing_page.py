"""docs/client-publishing.md is one script from top to bottom, and runs; its table has every option."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path

import pytest

from leveret.client.message import Message
from leveret.client.publishing.producer_options import ProducerOptions
from tests.client.producer_scene import expect_nothing_left

PAGE = Path(__file__).parents[2] / "docs" / "client-publishing.md"


def test_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(snippets) > 10
    code = compile("\n".join(snippets), str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        async with asyncio.timeout(60):
            await eval(code, {"__name__": "page"})
            await expect_nothing_left()

    asyncio.run(run())
    assert "PoolStatistics(idle=" in capsys.readouterr().out


def test_the_page_has_every_option_and_property() -> None:
    text = PAGE.read_text()
    table = text.partition("## Options of a producer")[2]
    for option in ProducerOptions.__struct_fields__:
        assert f"`{option}`" in table, option
    for name in Message.__struct_fields__[4:]:
        assert f"`{name}`" in text, name
