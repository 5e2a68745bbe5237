"""Compiles the data plane: every module that has a .pxd beside it. The client's distribution is built by it, too."""

import itertools
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("src")

DIRECTIVES = {
    "language_level": "3",
    # Types live in the .pxd; annotations are for mypy and the reader.
    "annotation_typing": False,
    # Lengths from the wire are checked before they index anything; see core/codec/octets.pxd.
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    # Nothing of the data plane is pickled, and its functions are called, not looked into. Without what both take, gcc
    # has a third less to do.
    "auto_pickle": False,
    "binding": False,
}
# What one gcc may take of memory, with a wide margin.
JOB_BYTES = 512 * 1024 * 1024
MEMORY = Path("/proc/meminfo")


def fortify_level() -> int:
    """How far calls of the C library can be checked: 3, sizes that are known at run time too, takes gcc 12."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        asked = [*compiler, "-dM", "-E", "-x", "c", os.devnull]
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    except OSError:
        return 2
    found = re.search(r"#define __GNUC__ (\d+)", said)
    return 3 if found is not None and int(found[1]) >= 12 and "__clang__" not in said else 2


# What makes a mistake in C end the process rather than be of use to somebody: the stack is guarded, calls that copy are
# checked, and the tables by which functions are found are read-only once loaded. A system that sets the level of these
# checks itself would warn about another one, so it is taken away first.
HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", f"-D_FORTIFY_SOURCE={fortify_level()}"]
LINKED = ["-Wl,-z,relro", "-Wl,-z,now"] if sys.platform == "linux" else []


def jobs() -> int:
    """How many compilers run at a time: one for each processor that this process may use, if memory allows."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        found = re.search(r"^MemAvailable: *(\d+) kB", MEMORY.read_text(), flags=re.MULTILINE)
    except OSError:
        found = None
    return processors if found is None else max(1, min(processors, int(found[1]) * 1024 // JOB_BYTES))


class BuildWithProgress(build_ext):
    """Says which module was compiled, and how many there are: the first time it takes a minute."""

    # Of those that are done, compiled or not; modules are compiled side by side.
    numbers = itertools.count(1)

    def build_extension(self, extension: Extension) -> None:
        target = Path(self.get_ext_fullpath(extension.name))
        before = target.stat().st_mtime_ns if target.exists() else 0
        super().build_extension(extension)
        number = next(self.numbers)
        if target.exists() and target.stat().st_mtime_ns != before:
            sys.stdout.write(f"[{number:2}/{len(self.extensions)}] compiled {extension.name}\n")
            sys.stdout.flush()


def forget_translations() -> None:
    """Removes C files that another version of this file has made: Cython looks at its sources alone."""
    ours = Path(__file__).stat().st_mtime_ns
    for path in SOURCE.rglob("*.pxd"):
        made = path.with_suffix(".c")
        if made.exists() and made.stat().st_mtime_ns < ours:
            made.unlink()


def extensions() -> list[Extension]:
    paths = sorted(path for path in SOURCE.rglob("*.py") if path.with_suffix(".pxd").exists())
    return [
        Extension(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-O2", "-g0", "-fno-strict-aliasing", *HARDENED],
            extra_link_args=LINKED,
            # Other flags, other code.
            depends=["setup.py"],
        )
        for path in paths
    ]


JOBS = jobs()
forget_translations()
setup(
    ext_modules=cythonize(extensions(), include_path=["src"], compiler_directives=DIRECTIVES, nthreads=JOBS),
    options={"build_ext": {"parallel": JOBS}},
    cmdclass={"build_ext": BuildWithProgress},
)
