"""docs/spark.md: it runs, and its tables are those of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from leveret.spark.options import ANY, READ, SPECS, WRITE
from leveret.spark.row_messages import USED
from leveret.spark.schema import COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_page_runs(spark: Any) -> None:
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(snippets) > 6
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(ast.parse("\n".join(snippets)), str(PAGE), "exec"), names)
    names["broker"].stop()


def test_it_has_every_option() -> None:
    text = PAGE.read_text(encoding="utf-8")
    sections = re.split(r"^For (all|reading|writing):$", text, flags=re.MULTILINE)
    parts = dict(zip(sections[1::2], sections[2::2], strict=True))
    for side, title in ((ANY, "all"), (READ, "reading"), (WRITE, "writing")):
        expected = [f"| `{spec.name}` | {spec.allowed} | {spec.what} |" for spec in SPECS if spec.side == side]
        assert re.findall(r"^\| `.*$", parts[title].split("\n## ")[0], flags=re.MULTILINE) == expected


def test_it_has_every_column() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in {*COLUMNS.names, *USED}:
        assert f"`{name}`" in text, name
