"""Files and functions stay small enough to read in one go. The exceptions stand here, each with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.tidy.tree import ROOT, parsed, python_files

FILE_LINES_FULL = 400  # listed at the end of the run, as a hint
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# path -> why it may be longer. An entry that is not needed any more fails the test.
LONG_FILES: dict[str, str] = {}
# path::function -> why it may be longer.
LONG_FUNCTIONS: dict[str, str] = {}


def file_lines() -> dict[str, int]:
    paths = python_files("src", "tests", "benchmarks", "distributions")
    return {str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in paths}


def function_lines(module: ast.Module, scope: str = "") -> Iterator[tuple[str, int]]:
    """Each function's dotted name with its lines, decorators not counted; methods and inner functions too."""

    def walk(node: ast.AST, outer: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{child.name}" if outer else child.name
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield name, (child.end_lineno or child.lineno) - child.lineno + 1
            yield from walk(child, name)

    return walk(module, scope)


def verdicts(sizes: Mapping[str, int], limit: int, allowed: Mapping[str, str]) -> list[str]:
    """What is too long and not allowed to be, and what is allowed without need."""
    long = {name for name, lines in sizes.items() if lines > limit}
    return [f"{name}: {sizes[name]} lines, at most {limit}" for name in sorted(long - set(allowed))] + [
        f"{name} is in the list of exceptions but does not need to be" for name in sorted(set(allowed) - long)
    ]


def test_files_have_one_subject() -> None:
    assert verdicts(file_lines(), FILE_LINES_MAX, LONG_FILES) == []


def test_functions_fit_a_screen() -> None:
    sizes = {
        f"{path}::{name}": lines
        for path in python_files("src", "tests", "benchmarks", "distributions")
        for name, lines in function_lines(parsed(path))
    }
    assert verdicts(sizes, FUNCTION_LINES_MAX, LONG_FUNCTIONS) == []


def test_what_is_too_long_or_needlessly_allowed_is_named() -> None:
    assert verdicts({"a": 500, "b": 501}, 500, {}) == ["b: 501 lines, at most 500"]
    assert verdicts({"b": 501}, 500, {"b": "generated"}) == []
    assert verdicts({"b": 499}, 500, {"b": "generated", "gone": "generated"}) == [
        "b is in the list of exceptions but does not need to be",
        "gone is in the list of exceptions but does not need to be",
    ]


def test_function_lines_sees_methods_and_inner_functions() -> None:
    lines = ["class Queue:", " @staticmethod", " async def publish():", "  def inner():", "   pass", "  return 1"]
    source = "\n".join(lines)
    assert dict(function_lines(ast.parse(source))) == {"Queue.publish": 4, "Queue.publish.inner": 2}
