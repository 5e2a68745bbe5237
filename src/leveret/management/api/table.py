"""All routes there are: those of every module of this room."""

from __future__ import annotations

import importlib
import pkgutil

from leveret.management import api
from leveret.management.http.route import Table, routes_of

ROOT_PATHS = "root_paths"


def make_table(root_paths: bool = True) -> Table:
    """With those routes that need no /api before them, or without."""
    names = sorted(module.name for module in pkgutil.iter_modules(api.__path__))
    if not root_paths:
        names.remove(ROOT_PATHS)
    modules = [importlib.import_module(f"{api.__name__}.{name}") for name in names]
    return Table(one for module in modules for one in routes_of(module))
