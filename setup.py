"""Compiles the data plane: every module that has a .pxd beside it."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")

DIRECTIVES = {
    "language_level": "3",
    # Types live in the .pxd; annotations are for mypy and the reader.
    "annotation_typing": False,
    # Lengths from the wire are checked before they index anything; see core/octets.pxd.
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
}


def extensions() -> list[Extension]:
    paths = sorted(path for path in SOURCE.rglob("*.py") if path.with_suffix(".pxd").exists())
    return [
        Extension(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-O2", "-g0", "-fno-strict-aliasing"],
        )
        for path in paths
    ]


JOBS = os.cpu_count() or 1
setup(
    ext_modules=cythonize(extensions(), include_path=["src"], compiler_directives=DIRECTIVES, nthreads=JOBS),
    options={"build_ext": {"parallel": JOBS}},
)
