"""Reads a .pxd: which classes, attributes and functions of a compiled module Python can see, and with which C types.

Knows the part of Cython's language that this project's .pxd files use, and raises on a line that it cannot read, so
that a new construct is noticed. Called by the stub writer only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_C_NUMBERS = {"char", "short", "int", "long", "unsigned", "signed", "Py_ssize_t", "size_t", "ssize_t"}
_PYTHON_TYPES = {
    "bint": "bool",
    "double": "float",
    "float": "float",
    "void": "None",
    "object": "Any",
    "bytes": "bytes",
    "bytearray": "bytearray",
    "str": "str",
    "list": "list[Any]",
    "dict": "dict[Any, Any]",
    "set": "set[Any]",
    "tuple": "tuple[Any, ...]",
}

_CLASS = re.compile(r"cdef class (?P<name>\w+)(?:\((?P<bases>[\w, ]*)\))?(?P<body>:?)$")
_FUNCTION = re.compile(
    r"(?P<access>cdef|cpdef) (?P<inline>inline )?(?P<head>[^(]*?)\b(?P<name>\w+)\((?P<arguments>.*)\)[^)]*$"
)
_VARIABLE = re.compile(
    r"cdef (?P<access>readonly |public )?(?P<type>.*?[\s*])(?P<names>\w+(?:\[[^]]+\])?(?:, \*?\w+)*)$"
)
_TYPE_NAME = re.compile(r"ctypedef (?P<type>.*) (?P<name>\w+)$")
_CIMPORT = re.compile(r"from (?P<module>[\w.]+) cimport (?P<names>.*)$")


class Unreadable(Exception):
    """A line of a .pxd has a form that this reader does not know."""


@dataclass
class Function:
    """Argument types in order, `self` left out. None for what only C can see."""

    result: str
    arguments: list[str]
    visible: bool


@dataclass
class Attribute:
    type: str
    writable: bool


@dataclass
class Class:
    name: str
    bases: list[str]
    final: bool = False
    # Every attribute, whether Python sees it or not: constructor arguments take their types from them.
    types: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)


@dataclass
class Declarations:
    classes: dict[str, Class] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    # Constants and variables of C: no attributes of the module.
    hidden: set[str] = field(default_factory=set)
    # Name -> the module it is cimported from.
    imports: dict[str, str] = field(default_factory=dict)
    type_names: dict[str, str] = field(default_factory=dict)


def python_type(c_type: str, type_names: dict[str, str]) -> str:
    """What Python sees of a C type."""
    words = c_type.replace("const ", "").strip()
    if "*" in words or "[" in words:
        # Only cdef functions have these, and those are left out.
        return "Any"
    words = type_names.get(words, words)
    if not words:
        return "Any"
    if words in _PYTHON_TYPES:
        return _PYTHON_TYPES[words]
    if set(words.split()) <= _C_NUMBERS or re.fullmatch(r"u?int\d+_t", words):
        return "int"
    if re.fullmatch(r"[A-Z]\w*", words):
        return words
    raise Unreadable(f"type {c_type!r}")


def logical_lines(text: str) -> list[tuple[int, str]]:
    """Indentation and content of each line, without comments and empty lines, with what brackets hold open joined."""
    lines: list[tuple[int, str]] = []
    open_brackets = 0
    verbatim = False
    for raw in text.splitlines():
        if raw.count('"""') == 1:
            verbatim = not verbatim
            continue
        line = re.sub(r"\s*#.*$", "", raw)
        if verbatim or not line.strip():
            continue
        if open_brackets:
            indent, before = lines[-1]
            lines[-1] = (indent, f"{before} {line.strip()}")
        else:
            lines.append((len(line) - len(line.lstrip()), line.strip()))
        open_brackets += line.count("(") - line.count(")")
    return lines


def read_declarations(path: Path) -> Declarations:
    found = Declarations()
    cls: Class | None = None
    block = ""
    final = False
    for indent, line in logical_lines(path.read_text(encoding="utf-8")):
        if line.startswith("@"):
            final = final or line == "@cython.final"
            continue
        if indent == 0:
            cls, block = None, ""
        try:
            if indent == 0:
                cls, block = _outer_line(line, final, found)
            elif cls is not None:
                _declare(line, found.type_names, cls.functions, cls)
            elif block == "enum":
                found.hidden.update(name.partition("=")[0].strip() for name in line.split(","))
        except Unreadable as problem:
            raise Unreadable(f"{path}: {problem} in {line!r}") from None
        final = False
    return found


def _outer_line(line: str, final: bool, found: Declarations) -> tuple[Class | None, str]:
    """Takes a line that is not indented; the class whose body follows, or the kind of another block."""
    if line.startswith(("cimport ", "cdef extern ")):
        return None, "C"
    if match := _CIMPORT.match(line):
        names = (name.strip(" ()") for name in match["names"].split(","))
        found.imports.update((name, match["module"]) for name in names if name)
        return None, ""
    if match := _TYPE_NAME.match(line):
        found.type_names[match["name"]] = match["type"]
        return None, ""
    if line.startswith("cdef enum"):
        return None, "enum"
    if line.startswith("cdef struct"):
        return None, "C"
    if match := _CLASS.match(line):
        if not match["body"]:
            return None, ""
        bases = [base.strip() for base in (match["bases"] or "").split(",") if base.strip()]
        cls = found.classes[match["name"]] = Class(match["name"], bases, final)
        return cls, ""
    if line.endswith(":"):
        # A function with its body: inlined into other modules and never seen by Python.
        name = line.partition("(")[0].split()[-1]
        found.hidden.add(name)
        return None, "C"
    _declare(line, found.type_names, found.functions, None, found.hidden)
    return None, ""


def _declare(
    line: str,
    type_names: dict[str, str],
    functions: dict[str, Function],
    cls: Class | None,
    hidden: set[str] | None = None,
) -> None:
    if match := _FUNCTION.match(line):
        visible = match["access"] == "cpdef"
        arguments = [_argument_type(argument, type_names) for argument in _arguments(match["arguments"], cls)]
        result = python_type(match["head"], type_names) if visible else "Any"
        functions[match["name"]] = Function(result, arguments if visible else [], visible)
        return
    match = _VARIABLE.match(line)
    if match is None:
        raise Unreadable("form")
    names = [name.strip(" *").partition("[")[0] for name in match["names"].split(",")]
    if cls is None:
        assert hidden is not None
        hidden.update(names)
        return
    # An array of C is never visible.
    c_type = f"{match['type'].strip()}{'*' if '[' in match['names'] else ''}"
    access = (match["access"] or "").strip()
    for name in names:
        if access:
            cls.attributes[name] = Attribute(python_type(c_type, type_names), writable=access == "public")
        if "*" not in c_type and re.fullmatch(r"[\w ]+", c_type):
            try:
                cls.types[name] = python_type(c_type, type_names)
            except Unreadable:
                # A struct of C: no argument of a constructor is one.
                continue


def _arguments(text: str, cls: Class | None) -> list[str]:
    arguments = [argument.strip() for argument in text.split(",") if argument.strip()]
    return arguments[1:] if cls is not None else arguments


def _argument_type(argument: str, type_names: dict[str, str]) -> str:
    argument = argument.partition("=")[0].replace("not None", "").strip()
    if "*" in argument:
        return "Any"
    c_type, _, _ = argument.rpartition(" ")
    return python_type(c_type, type_names)
