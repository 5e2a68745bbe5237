"""Who may import whom: the contracts of pyproject.toml hold, and break when they should."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, tool_output

PYPROJECT = ROOT / "pyproject.toml"
ROOMS = (
    *("node", "spark", "cli", "session", "management", "links", "client", "operations", "broker", "auth", "queues"),
    *("routing", "cluster", "wire", "catalog", "storage", "core", "runtime"),
)

FOR_TYPES_ALONE = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from leveret.client.connection import Connection
"""


def room_names_to_mend(built: set[str], contracts: list[dict[str, object]]) -> list[str]:
    """Rooms that exist but stand in a contract as `.**`, which leaves out their __init__.py, and the reverse."""
    named = {str(name) for contract in contracts for key in ("source_modules", "forbidden_modules")
             for name in contract.get(key, [])}  # type: ignore[attr-defined]  # fmt: skip
    waiting = {name.split(".")[1] for name in named if name.startswith("leveret.") and name.endswith(".**")}
    plain = {name.split(".")[1] for name in named if name.startswith("leveret.") and not name.endswith(".**")}
    return [f"leveret.{room}.** -> leveret.{room}" for room in sorted(waiting & built)] + [
        f"leveret.{room} -> leveret.{room}.**" for room in sorted(plain - built)
    ]


def lint_imports(tree: Path) -> tuple[int, str]:
    return tool_output("lint-imports", "--no-cache", "--config", str(tree / "pyproject.toml"), cwd=tree)


def house(tree: Path, **modules: str) -> Path:
    """A small leveret with every room and these modules, under the project's own contracts."""
    contracts = PYPROJECT.read_text().replace('.**"', '"')
    (tree / "pyproject.toml").write_text(contracts)
    package = tree / "src" / "leveret"
    for room in (*ROOMS, "cluster/consensus"):
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").touch()
    for name in ("__init__", "errors", "client/connection"):
        (package / f"{name}.py").touch()
    for place, source in modules.items():
        (package / f"{place.replace('__', '/')}.py").write_text(source + "\n")
    return tree


def test_the_contracts_hold() -> None:
    code, output = lint_imports(ROOT)
    assert code == 0, output


def test_built_rooms_have_plain_names_in_the_contracts() -> None:
    built = {room for room in ROOMS if (ROOT / "src/leveret" / room / "__init__.py").exists()}
    contracts = tomllib.loads(PYPROJECT.read_text())["tool"]["importlinter"]["contracts"]
    assert room_names_to_mend(built, contracts) == []


def test_a_built_room_behind_stars_is_noticed() -> None:
    contracts: list[dict[str, object]] = [{"source_modules": ["leveret.wire.**", "leveret.core"]}]
    assert room_names_to_mend({"core"}, contracts) == []
    assert room_names_to_mend({"wire"}, contracts) == [
        "leveret.wire.** -> leveret.wire",
        "leveret.core -> leveret.core.**",
    ]


def test_a_tidy_house_passes(tmp_path: Path) -> None:
    code, output = lint_imports(
        house(tmp_path, session__desk="import leveret.broker", node__cli="import leveret.spark2")
    )
    assert code == 0, output


@pytest.mark.parametrize(
    ("place", "source", "contract"),
    [
        ("core__frame", "import leveret.wire", "Each floor"),
        ("broker__desk", "import leveret.session", "Each floor"),
        ("session__desk", "import leveret.management", "Each floor"),
        ("routing__topic", "import leveret.cluster", "Each floor"),
        ("errors", "import leveret.core", "Each floor"),
        ("surprise", "", "Each floor"),
        ("core__frame", "import asyncio", "Pure rooms"),
        ("core__frame", "import os", "Pure rooms"),
        ("wire__handshake", "import secrets", "Pure rooms"),
        ("catalog__user", "from time import monotonic", "Pure rooms"),
        ("routing__random", "def pick():\n    import random", "Pure rooms"),
        ("queues__classic", "import threading", "Pure rooms"),
        ("client__pool", "import leveret.storage", "Client, Spark"),
        ("spark__source", "import leveret.catalog", "Client, Spark"),
        ("cli__queues", "import leveret.broker", "Client, Spark"),
        ("spark__source", "import leveret.core", "Spark knows"),
        ("spark__source", "from leveret.wire import queue_methods", "Spark knows"),
        ("client__owner", "import leveret.client.connection", "Each room of the client"),
        ("client__owner", FOR_TYPES_ALONE, "Each room of the client"),
        ("client__surprise", "", "Each room of the client"),
    ],
)
def test_a_broken_rule_is_named(place: str, source: str, contract: str, tmp_path: Path) -> None:
    code, output = lint_imports(house(tmp_path, **{place: source}))
    broken = [line for line in output.splitlines() if line.startswith(contract) and " BROKEN" in line]
    assert code == 1 and broken, output


def test_a_clock_behind_another_room_is_found(tmp_path: Path) -> None:
    code, output = lint_imports(
        house(tmp_path, wire__handshake="import leveret.runtime.clock", runtime__clock="import time")
    )
    assert code == 1 and "leveret.runtime.clock -> time" in output, output
