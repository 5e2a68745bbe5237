"""The tree that the client's own distribution is built from: `python -m distributions.client.staging build/client`.

One source, two distributions: the client's modules, and of the rest only what they import or cimport, however far.
Which files these are is found out, never listed."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "leveret"
CLIENT = "leveret.client"
# Made by builds, and never part of a source.
MADE = {".c", ".so", ".pyd", ".pyc", ".html"}
# What the tree has besides the package, and what it is called there.
BESIDE = {
    "distributions/client/pyproject.toml": "pyproject.toml",
    "distributions/client/README.md": "README.md",
    "setup.py": "setup.py",
}

_CIMPORT = re.compile(
    r"^\s*(?:from\s+(?P<module>[\w.]+)\s+cimport\s+(?:\((?P<many>[^)]*)\)|(?P<names>[^\n#]*))|cimport\s+(?P<plain>[\w.]+))",
    re.MULTILINE,
)


def files_of(source: Path, module: str) -> list[Path]:
    """A module's files: .py, and .pxd and .pyi if it is compiled; none if there is no such module."""
    path = source.joinpath(*module.split("."))
    places = [path / "__init__.py", path / "__init__.pxd"] if path.is_dir() else []
    return [place for place in (*places, *map(path.with_suffix, (".py", ".pxd", ".pyi"))) if place.is_file()]


def named_in(path: Path, module: str) -> Iterator[str]:
    """Whatever a file imports or cimports, wherever it does so. Some of it may be no module, but a name in one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".pxd":
        for found in _CIMPORT.finditer(text):
            yield from _with_names(found["plain"] or found["module"], found["many"] or found["names"] or "")
        return
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from _with_names(origin, ",".join(alias.name for alias in node.names))


def _with_names(module: str, names: str) -> Iterator[str]:
    yield module
    for name in names.split(","):
        if name.strip():
            yield f"{module}.{name.split()[0]}"


def closure(source: Path, roots: set[str]) -> set[str]:
    """These modules with everything of the package that they need, and the packages around them."""
    found: set[str] = set()
    waiting = set(roots)
    while waiting:
        module = waiting.pop()
        if module in found or module.partition(".")[0] != PACKAGE or not files_of(source, module):
            continue
        found.add(module)
        if "." in module:
            waiting.add(module.rpartition(".")[0])
        for path in files_of(source, module):
            waiting.update(named_in(path, module))
    return found


def client_modules(source: Path) -> set[str]:
    """All modules of the client's room."""
    paths = source.joinpath(*CLIENT.split(".")).rglob("*.py")
    names = (".".join(path.relative_to(source).with_suffix("").parts) for path in paths)
    return {name.removesuffix(".__init__") for name in names}


def client_files(source: Path) -> list[Path]:
    """Every file of the package that the distribution has, relative to the source."""
    modules = closure(source, client_modules(source))
    files = {path for module in modules for path in files_of(source, module)}
    room = source.joinpath(*CLIENT.split("."))
    files |= {path for path in room.rglob("*") if path.is_file() and path.suffix not in MADE}
    files.add(source / PACKAGE / "py.typed")
    return sorted(path.relative_to(source) for path in files)


def stage(tree: Path) -> None:
    """Makes the tree anew."""
    shutil.rmtree(tree, ignore_errors=True)
    source = ROOT / "src"
    copies = {ROOT / name: tree / place for name, place in BESIDE.items()}
    copies |= {source / path: tree / "src" / path for path in client_files(source)}
    for origin, place in copies.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(origin, place)
    # C files are made where the distribution is built.
    (tree / "MANIFEST.in").write_text("recursive-include src *.pxd *.pyi\nglobal-exclude *.c\n")


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
