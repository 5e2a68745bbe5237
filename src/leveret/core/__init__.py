"""The compiled data plane. Each module is plain Python with its C types in a .pxd beside it.

With LEVERET_PURE=1 the modules run interpreted although compiled ones are installed: slower,
but open to a debugger, coverage and fuzzers."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

_PREFIX = __name__ + "."


class _SourceFinder(importlib.abc.MetaPathFinder):
    """Finds the .py of a core module before the import system finds its extension."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_PREFIX):
            return None
        source = os.path.join(os.path.dirname(__file__), fullname.removeprefix(_PREFIX) + ".py")
        return importlib.util.spec_from_file_location(fullname, source) if os.path.exists(source) else None


PURE = os.environ.get("LEVERET_PURE", "") not in ("", "0")
if PURE:
    sys.meta_path.insert(0, _SourceFinder())
