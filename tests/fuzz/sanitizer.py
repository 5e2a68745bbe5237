"""The compiled data plane under AddressSanitizer and UBSan: built in a directory of its own, and the suites that feed
its parsers run with it. `python -m tests.fuzz.sanitizer build/sanitized` is `make fuzz-asan`.

What is built are the modules that the suites import, without optimization: that is the quickest to build, and hides
nothing. Beside them stands a module with known mistakes, the control: a run that misses these proves nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Those in the tests of every day: they need few modules, which are built in a quarter of a minute.
SUITES = [
    "tests/fuzz/test_stored_scans.py",
    "tests/property/test_tables.py",
    "tests/property/test_properties.py",
    "tests/property/test_amqp10.py",
    "tests/property/test_stream_entries.py",
    "tests/unit/core/client/test_cells.py",
    "tests/unit/core/client/test_columns.py",
    "tests/unit/core/client/test_row_headers.py",
    "tests/unit/core/client/test_row_outgoing.py",
]
# When there is time: everything that feeds a parser, of frames, records, streams, sub-batches and rows.
LONG_SUITES = ["tests/property", "tests/unit/core", "tests/fuzz/test_session.py", "tests/fuzz/test_refusals.py"]
LONG_SUITES += ["tests/fuzz/test_stored_scans.py", "tests/fuzz/test_stored_records.py"]
FLAGS = ["-O0", "-g1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-omit-frame-pointer"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
CONTROL = """
def read_behind(bytes data, Py_ssize_t at):
    cdef const unsigned char* p = data
    return p[at]

def add(int a, int b):
    cdef int c = a + b
    return c

def read_misaligned(bytes data):
    cdef const unsigned char* p = data
    return (<const unsigned long long*> (p + 1))[0]
"""
INCLUDE = sysconfig.get_paths()["include"]
SUFFIX = EXTENSION_SUFFIXES[0]
CONTROL_MODULE = "leveret_sanitizer_control"
# Which of the modules that these tests import are compiled ones; printed one a line.
LIST_MODULES = """
import importlib, pathlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for name in sorted(sys.modules):
    if name.startswith("leveret."):
        print(name)
"""


def missing() -> str | None:
    """Why nothing can be built here; None if it can."""
    if shutil.which("gcc") is None:
        return "there is no gcc"
    for name in ("libasan.so", "libubsan.so"):
        # The plain name comes back if there is no such file.
        if not os.path.isabs(_library(name)):
            return f"gcc has no {name}"
    return None


def _library(name: str) -> str:
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def environment(directory: Path, **more: str) -> dict[str, str]:
    """For a Python that runs what was built there."""
    # Both, and before anything else: else the interpreter has taken memory that they do not know of.
    preload = ":".join(_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so.6"))
    return {
        **os.environ,
        "LD_PRELOAD": preload,
        # The interpreter's own arena is one large piece to a sanitizer, and it never gives everything back.
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join([str(directory), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONFAULTHANDLER": "0",
        **more,
    }


def wanted_modules(suites: list[str]) -> list[str]:
    """The compiled modules that these suites need."""
    names = [".".join(Path(path).with_suffix("").parts) for path in suites if path.endswith(".py")]
    command = [sys.executable, "-c", LIST_MODULES, *names]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "LEVERET_PURE": "1"}
    imported = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True).stdout.split()
    found: set[str] = set()
    left = [name for name in imported if _is_compiled(name)]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            # Compiled, a module needs others than interpreted.
            text = _source(name, ".pxd").read_text() + _source(name, ".py").read_text()
            left += [other for other in re.findall(r"from (leveret[.\w]+) c?import", text) if _is_compiled(other)]
    return sorted(found)


def all_modules() -> list[str]:
    paths = sorted(path for path in (ROOT / "src").rglob("*.py") if path.with_suffix(".pxd").exists())
    return [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in paths]


def _is_compiled(name: str) -> bool:
    return _source(name, ".pxd").exists() and _source(name, ".py").exists()


def _source(name: str, suffix: str) -> Path:
    return (ROOT / "src" / Path(*name.split("."))).with_suffix(suffix)


def build(directory: Path, modules: list[str]) -> None:
    """A copy of the package there, with these modules compiled; and the control."""
    # What an earlier build has translated to C need not be translated again, unless it has changed since.
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src", directory, ignore=ignored, dirs_exist_ok=True)
    (directory / f"{CONTROL_MODULE}.pyx").write_text(CONTROL)
    translate(directory, modules)
    jobs = os.cpu_count() or 1
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda name: _compile(directory, name), [*modules, CONTROL_MODULE]))


def translate(directory: Path, modules: list[str]) -> None:
    """To C, with the directives of setup.py, in processes side by side."""
    code = (
        "import sys; from pathlib import Path; sys.argv[0] = 'setup.py'\n"
        "import setuptools; setuptools.setup = lambda **_: None\n"
        f"text = Path({str(ROOT / 'setup.py')!r}).read_text()\n"
        "scope = {'__name__': 'directives'}; exec(text.split('JOBS =')[0], scope)\n"
        "from Cython.Build import cythonize\n"
        "cythonize(sys.argv[1:], include_path=['.'], compiler_directives=scope['DIRECTIVES'], quiet=True, "
        f"nthreads={os.cpu_count() or 1})\n"
    )
    sources = [str(Path(*name.split(".")).with_suffix(".py")) for name in modules] + [f"{CONTROL_MODULE}.pyx"]
    command = [sys.executable, "-c", code, *sources]
    subprocess.run(command, cwd=directory, check=True, stdout=subprocess.DEVNULL)


def _compile(directory: Path, name: str) -> None:
    source = directory / Path(*name.split(".")).with_suffix(".c")
    target = source.with_suffix(SUFFIX)
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return
    command = ["gcc", *FLAGS, *SANITIZE, f"-I{INCLUDE}", "-o", str(target), str(source)]
    subprocess.run(command, check=True)


def command_for(suites: list[str], *options: str) -> list[str]:
    """Of sys alone is captured: what a sanitizer says goes to where the process's errors go."""
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    return [sys.executable, "-m", "pytest", "-q", *plugins, "--capture=sys", *options, *suites]


def run_suites(directory: Path, suites: list[str], *options: str, timeout: float) -> subprocess.CompletedProcess[str]:
    command, environ = command_for(suites, *options), environment(directory)
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=timeout, check=False)


def run_control(directory: Path, call: str) -> subprocess.CompletedProcess[str]:
    """One of the control's mistakes."""
    code = f"import {CONTROL_MODULE} as control; control.{call}; print('not caught')"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment(directory), capture_output=True, text=True, timeout=60, check=False)


def main() -> None:
    directory = Path(sys.argv[1]).resolve()
    build(directory, all_modules())
    for call in ("read_behind(b'abc', 4)", "add(2147483647, 1)", "read_misaligned(b'0123456789')"):
        if run_control(directory, call).returncode == 0:
            sys.exit(f"the sanitizers do not catch {call}: nothing else that they say counts")
    rounds = os.environ.get("LEVERET_FUZZ_ROUNDS", "20000")
    environ = environment(directory, LEVERET_FUZZ_ROUNDS=rounds)
    command = command_for(sys.argv[2:] or LONG_SUITES, "--timeout=3600")
    sys.exit(subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode)


if __name__ == "__main__":
    main()
