"""Facts that many modules need have one home: layouts and numbers in a .pxd with a Python twin, the limit of names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT, parsed, project_files, python_files

CORE = Path("src/leveret/core")
# .pxd -> its Python twin.
TWINS = {CORE / "log/slot.pxd": CORE / "log/slot_layout.py", CORE / "codec/methods.pxd": CORE / "codec/method_ids.py"}
NAMES = CORE / "codec/names.py"
LIMIT = re.compile(r"^_?(?:NAME|SHORT|SHORTSTR|KEY|TAG)_(?:\w+_)?MAX(?:: Final)? = 255$", re.MULTILINE)
# In C, as a variable that a module gives a value of its own. The stream protocol has a PUBLISH that is another number.
DECLARED = re.compile(r"^cdef [\w ]+\b(?:SLOT_BYTES|BODY_SIZE|DELIVERIES|ACK|NACK|GET_OK)\b", re.MULTILINE)
# Modules that may not import the core, and say the limit themselves.
APART = {
    "src/leveret/runtime/certificate.py",
    "src/leveret/spark/row_ids.py",
    "src/leveret/spark/row_messages.py",
    "src/leveret/spark/writer_name.py",
}
# Characters of a text that is cut, not octets of a name.
CHARACTERS = {"src/leveret/auth/audit.py", "src/leveret/catalog/patterns.py", "src/leveret/management/api/overview.py"}


def c_constants(path: Path) -> dict[str, int]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return {name: int(value, 0) for name, value in re.findall(r"^    (\w+) = (\w+)$", text, flags=re.MULTILINE)}


def python_constants(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in parsed(path).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, int):
            found |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("pxd", TWINS, ids=str)
def test_a_twin_says_the_same(pxd: Path) -> None:
    assert len(c_constants(pxd)) > 5
    assert c_constants(pxd) == python_constants(TWINS[pxd])


def test_no_other_module_defines_them_again() -> None:
    slot, methods = (set(python_constants(twin)) for twin in TWINS.values())
    again = [
        f"{path}: {name}"
        for path in python_files("src")
        if path not in TWINS.values()
        for name, value in python_constants(path).items()
        if (CORE in path.parents and name in slot) or (name in methods and value > 0xFFFF)
    ]
    again += [
        str(path)
        for path in project_files()
        if path.suffix == ".pxd" and path not in TWINS and DECLARED.search((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert again == []


def test_the_limit_of_names_is_defined_once() -> None:
    files = {str(path): (ROOT / path).read_text(encoding="utf-8") for path in python_files("src")}
    defined = {path for path, text in files.items() if LIMIT.search(text)}
    assert defined - CHARACTERS == APART | {str(NAMES)}
