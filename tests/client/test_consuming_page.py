"""docs/client-consuming.md is one script from top to bottom, and runs; its table has every option."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from leveret.client.consuming.consumer_options import ConsumerOptions
from tests.client.consumer_scene import in_loop

PAGE = Path(__file__).parents[2] / "docs" / "client-consuming.md"


def test_the_page_runs() -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(snippets) > 10
    code = compile("\n".join(snippets), str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        await eval(code, {"__name__": "page"})

    in_loop(run())


def test_the_page_has_every_option() -> None:
    table = PAGE.read_text().partition("## Options")[2]
    for option in ConsumerOptions.__struct_fields__:
        assert f"`{option}`" in table, option
