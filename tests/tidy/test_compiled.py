"""Which data plane the tests really ran: an installed one is compiled, and LEVERET_PURE=1 is not."""

from __future__ import annotations

import importlib
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import leveret
from tests.tidy.tree import ROOT

PURE = os.environ.get("LEVERET_PURE", "") not in ("", "0")
PACKAGE = Path(leveret.__file__).parent
COMPILED_MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    for path in (ROOT / "src/leveret").rglob("*.py")
    if path.with_suffix(".pxd").exists()
)


@pytest.mark.parametrize("name", COMPILED_MODULES)
def test_compiled_module_runs_in_the_form_asked_for(name: str) -> None:
    if not PURE and ROOT in PACKAGE.parents and ".venv" not in PACKAGE.parts:
        pytest.skip("runs from src/, where compiling is optional; `make test` installs it")
    origin = importlib.import_module(name).__file__ or ""
    assert origin.endswith(".py") if PURE else origin.endswith(tuple(EXTENSION_SUFFIXES)), origin
