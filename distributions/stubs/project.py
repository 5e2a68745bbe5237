"""The compiled modules of a source tree: each with the tree of its .py and the declarations of its .pxd."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from distributions.stubs.declarations import Class, Declarations, read_declarations


class Project:
    """The compiled modules of a source tree, read when they are asked for: classes inherit across modules."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._declarations: dict[str, Declarations] = {}
        self._trees: dict[str, ast.Module] = {}
        paths = sorted(path for path in source.rglob("*.py") if path.with_suffix(".pxd").exists())
        self.modules = [".".join(path.relative_to(source).with_suffix("").parts) for path in paths]
        # Classes by the first ancestor of each, as (module, name).
        self._families: dict[tuple[str, str], list[tuple[str, Class]]] = {}

    def path(self, module: str) -> Path:
        return self.source.joinpath(*module.split("."))

    def declarations(self, module: str) -> Declarations:
        if module not in self._declarations:
            self._declarations[module] = read_declarations(self.path(module).with_suffix(".pxd"))
        return self._declarations[module]

    def tree(self, module: str) -> ast.Module:
        if module not in self._trees:
            self._trees[module] = ast.parse(self.path(module).with_suffix(".py").read_text(encoding="utf-8"))
        return self._trees[module]

    def lineage(self, module: str, name: str) -> Iterator[tuple[str, Class]]:
        """A cdef class and those that it inherits from, each with its module."""
        declarations = self.declarations(module)
        cls = declarations.classes.get(name)
        if cls is None:
            return
        yield module, cls
        for base in cls.bases:
            yield from self.lineage(declarations.imports.get(base, module), base)

    def class_node(self, module: str, name: str) -> ast.ClassDef | None:
        found = (node for node in self.tree(module).body if isinstance(node, ast.ClassDef) and node.name == name)
        return next(found, None)

    def family(self, module: str, name: str) -> list[tuple[str, Class]]:
        """All cdef classes that share an ancestor with this one."""
        if not self._families:
            for other in self.modules:
                for cls in self.declarations(other).classes.values():
                    self._families.setdefault(self._root(other, cls.name), []).append((other, cls))
        return self._families[self._root(module, name)]

    def _root(self, module: str, name: str) -> tuple[str, str]:
        home, cls = list(self.lineage(module, name))[-1]
        return home, cls.name
