"""Leveret, a message broker that speaks AMQP 0-9-1.

Some modules are compiled: plain Python with its C types in a .pxd beside it. With LEVERET_PURE=1 they run interpreted
although compiled ones are installed: slower, but open to a debugger, coverage and fuzzers."""

import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

__version__ = "0.1.0"

_HERE = os.path.dirname(__file__)


class _SourceFinder:
    """Finds the .py of a compiled module before the import system finds its extension."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("leveret."):
            return None
        source = os.path.join(_HERE, *fullname.split(".")[1:]) + ".py"
        types = source.removesuffix(".py") + ".pxd"
        if not os.path.exists(types) or not os.path.exists(source):
            return None
        return importlib.util.spec_from_file_location(fullname, source)


PURE = os.environ.get("LEVERET_PURE", "") not in ("", "0")
if PURE:
    sys.meta_path.insert(0, _SourceFinder())
