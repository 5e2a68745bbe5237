"""docs/client.md: its first lines are a program, the rest is a script, and its tables have everything there is."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import leveret.client
from leveret.client import ClientError
from leveret.client.options import FROM_URL, Options
from leveret.client.topology import TopologyConflict
from tests.client.topology_scene import Scene
from tests.unit.node.process import environment

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "client.md").read_text("utf-8")
FIRST, *REST = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
ADDRESS = "amqp://guest:guest@localhost:5672/"


def test_the_first_lines(scene: Scene) -> None:
    assert ADDRESS in FIRST
    script = FIRST.replace(ADDRESS, scene.url)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ('{"drink":"tea"}\n', "")


def test_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    imports = FIRST.partition("\n\n\n")[0]
    code = compile("\n".join([imports, *REST]), "client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run() -> None:
        async with asyncio.timeout(60):
            await eval(code, {"__name__": "page"})

    asyncio.run(run())
    assert "the broker takes no messages" in capsys.readouterr().out


def test_the_options_are_those_there_are() -> None:
    table = PAGE.partition("\n## Options\n")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.+?)` \|", table, flags=re.MULTILINE))
    assert rows == {field.name: repr(default_of(field)) for field in msgspec.structs.fields(Options)}


def default_of(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()  # type: ignore[operator]


def test_options_of_the_address_are_marked() -> None:
    table = PAGE.partition("\n## Options\n")[2]
    assert set(re.findall(r"^\| `(\w+)` .*`\?` \|$", table, flags=re.MULTILINE)) == set(FROM_URL)


def test_every_error_has_its_row() -> None:
    table = PAGE.partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    exported = {name for name in leveret.client.__all__ if is_error(getattr(leveret.client, name))}
    assert set(rows) == (exported | {TopologyConflict.__name__}) - {"ClientError"}
    assert len(rows) == len(set(rows))


def is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, ClientError)


def test_links_lead_somewhere() -> None:
    """Of all pages about the client: to files that exist, and to headings in them."""
    pages = [*DOCS.glob("client*.md"), *(DOCS / "tutorials").glob("*.md")]
    assert len(pages) > 15
    missing = []
    for page in pages:
        for place, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text("utf-8")):
            target = (page.parent / place).resolve() if place else page
            if not target.exists() or (heading and heading not in headings(target)):
                missing.append(f"{page.name}: {place}#{heading}")
    assert missing == []


def headings(page: Path) -> set[str]:
    lines = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}
