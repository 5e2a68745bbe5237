"""A C compiler for tests that build a distribution: the system's one without optimization, which takes a third of the
time. What such a test proves (every module compiles, is packed, is found and runs) does not depend on it."""

from __future__ import annotations

import os
import shlex
import sysconfig
from pathlib import Path


def quick_compiler(directory: Path) -> str:
    """The path of a script in the directory, to be set as CC. The last -O counts, whatever setup.py wants."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    script = directory / "quick-cc"
    words = shlex.join(shlex.split(compiler))
    script.write_text(f'#!/bin/sh\nexec {words} "$@" -O0 -U_FORTIFY_SOURCE\n')
    script.chmod(0o755)
    return str(script)
