"""What the .py of a compiled module says of its classes and functions, for the stub writer: which attributes and
results can be None, and where constructors take their attributes from."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from typing import TypeGuard

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """Every node of a function's body, inner functions left out."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))


def returned(function: FunctionNode) -> list[ast.expr | None]:
    """What the return statements return, branches of a conditional expression one by one."""
    found: list[ast.expr | None] = []
    waiting = [node.value for node in own_nodes(function) if isinstance(node, ast.Return)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, ast.IfExp):
            waiting += [value.body, value.orelse]
        else:
            found.append(value)
    return found


def is_generator(function: FunctionNode) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own_nodes(function))


def can_return_none(function: FunctionNode) -> bool:
    return any(value is None or is_none(value) for value in returned(function))


def compared_with_none(function: FunctionNode) -> set[str]:
    """Names that the function compares with None."""
    return {
        node.left.id
        for node in own_nodes(function)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and any(map(is_none, node.comparators))
    }


def optional_attributes(cls: ast.ClassDef, writable: Container[str]) -> set[str]:
    """Attributes of self that can be None once the object is made: some method sets them to None or compares them with
    it. What only __init__ sets to None counts if it is for others to write; else it gets its value before anything can
    read it."""
    found: set[str] = set()
    for function in cls.body:
        if isinstance(function, FunctionNode):
            for node in own_nodes(function):
                if isinstance(node, ast.Assign):
                    names = {name for target in node.targets for name in _set_to_none(target, node.value)}
                    found |= {name for name in names if function.name != "__init__" or name in writable}
                elif isinstance(node, ast.Compare) and any(map(is_none, node.comparators)):
                    found |= {node.left.attr} if _is_own(node.left) else set()
    return found


def _is_own(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _set_to_none(target: ast.expr, value: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for inner, its_value in zip(target.elts, value.elts, strict=False):
            yield from _set_to_none(inner, its_value)
    elif _is_own(target):
        branches = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        if any(map(is_none, branches)):
            yield target.attr


def attributes_from_arguments(function: FunctionNode) -> dict[str, str]:
    """Argument -> the attribute of self that it is assigned to as it is."""
    found: dict[str, str] = {}
    for node in own_nodes(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            for target in node.targets:
                if _is_own(target):
                    found.setdefault(node.value.id, target.attr)
    return found


def attributes_of_optional_arguments(cls: ast.ClassDef) -> set[str]:
    """Attributes of self that methods take from arguments whose default is None."""
    found: set[str] = set()
    for function in cls.body:
        if isinstance(function, FunctionNode):
            spec = function.args
            with_default = [*spec.posonlyargs, *spec.args][-len(spec.defaults) :] if spec.defaults else []
            pairs = [
                *zip(with_default, spec.defaults, strict=True),
                *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
            ]
            optional = {argument.arg for argument, default in pairs if is_none(default)}
            taken = attributes_from_arguments(function)
            found |= {attribute for argument, attribute in taken.items() if argument in optional}
    return found


def assigned_attributes(cls: ast.ClassDef) -> set[str]:
    """What methods assign to self."""
    return {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.expr) and _is_own(node) and isinstance(node.ctx, ast.Store)
    }


def methods_of(cls: ast.ClassDef) -> set[str]:
    return {child.name for child in cls.body if isinstance(child, FunctionNode)}


def is_init(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"
