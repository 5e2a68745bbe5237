"""Writes the type stub of a compiled module: names, defaults and annotations from its .py, types from its .pxd.

C knows no None, so that what may be None is read off the .py: an attribute to which some method assigns None, a
function that returns it, an argument that has it as its default or is compared with it."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path

from distributions.stubs.declarations import Class, Function
from distributions.stubs.project import Project
from distributions.stubs.questions import (
    FunctionNode,
    assigned_attributes,
    attributes_from_arguments,
    attributes_of_optional_arguments,
    can_return_none,
    compared_with_none,
    is_generator,
    is_init,
    is_none,
    methods_of,
    optional_attributes,
    own_nodes,
    returned,
)

HEAD = "# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.\n"
# Called by C alone.
_C_METHODS = {"__cinit__", "__dealloc__"}
_COMPARISONS = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
_RESULTS = {
    "__init__": "None",
    "__repr__": "str",
    "__str__": "str",
    "__hash__": "int",
    "__len__": "int",
    "__bool__": "bool",
}
_RESULTS |= dict.fromkeys(_COMPARISONS, "bool")
_LITERALS = {int: "int", float: "float", str: "str", bytes: "bytes", bool: "bool"}


def or_none(annotation: str) -> str:
    plain = annotation in ("Any", "None") or annotation.endswith("| None")
    return annotation if plain else f"{annotation} | None"


class StubWriter:
    """One module's stub."""

    def __init__(self, project: Project, module: str) -> None:
        self.project = project
        self.module = module
        self.declared = project.declarations(module)
        self.tree = project.tree(module)

    def text(self) -> str:
        body: list[str] = []
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                body += self.class_lines(node)
            elif isinstance(node, FunctionNode):
                body += self.function_lines(node, self.declared.functions.get(node.name), None, "")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                body += self.variable_lines(node)
        return HEAD + "\n" + "\n".join([*self.import_lines(body), "", *body]).rstrip() + "\n"

    def variable_lines(self, node: ast.Assign | ast.AnnAssign) -> list[str]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        names = [name for name in names if name not in self.declared.hidden]
        if names == ["__all__"]:
            return [ast.unparse(node)]
        if isinstance(node, ast.AnnAssign):
            return [f"{name}: {_annotation(node.annotation)}" for name in names]
        if (
            len(names) == 1
            and isinstance(node.value, ast.Subscript | ast.BinOp)
            and names[0][:1].isupper()
            and not names[0].isupper()
        ):
            # An alias of a type.
            return [ast.unparse(node)]
        if isinstance(targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(targets[0].elts, node.value.elts, strict=True)
            types = {ast.unparse(target): self.value_type(value) for target, value in pairs}
            return [f"{name}: {types[name]}" for name in names]
        return [f"{name}: {self.value_type(node.value)}" for name in names]

    def value_type(self, value: ast.expr) -> str:
        if isinstance(value, ast.Tuple):
            kinds = {self.value_type(element) for element in value.elts}
            return f"tuple[{kinds.pop()}, ...]" if len(kinds) == 1 else "tuple[Any, ...]"
        if isinstance(value, ast.Constant):
            return _LITERALS.get(type(value.value), "Any")
        if isinstance(value, ast.BinOp):
            kinds = {self.value_type(value.left), self.value_type(value.right)}
            return "int" if kinds == {"int"} and not isinstance(value.op, ast.Div) else "Any"
        return self.value_type(value.operand) if isinstance(value, ast.UnaryOp) else "Any"

    def class_lines(self, node: ast.ClassDef) -> list[str]:
        cls = self.declared.classes.get(node.name)
        lines = ["@final"] if cls is not None and cls.final else []
        bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
        lines.append(f"class {node.name}{bases}:")
        body = self.attribute_lines(node, cls)
        for child in node.body:
            if isinstance(child, FunctionNode) and child.name not in _C_METHODS:
                declared = self.declared_method(cls, child.name) if cls is not None else None
                body += self.function_lines(child, declared, cls, "    ")
            elif isinstance(child, ast.Assign) and ast.unparse(child.targets[0]) != "__slots__":
                body.append(f"    {ast.unparse(child.targets[0])}: {self.value_type(child.value)}")
        return [*lines, *(body or ["    pass"]), ""]

    def attribute_lines(self, node: ast.ClassDef, cls: Class | None) -> list[str]:
        annotated = {
            child.target.id: _annotation(child.annotation)
            for child in node.body
            if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name)
        }
        if cls is None:
            names = [*annotated, *sorted(assigned_attributes(node) - set(annotated) - methods_of(node))]
            return [f"    {name}: {annotated.get(name, 'Any')}" for name in names]
        empty = self.empty_attributes(self.module, node)
        lines: list[str] = []
        for name, attribute in cls.attributes.items():
            annotation = annotated.get(name) or (
                or_none(attribute.type) if name in empty and self.is_object(attribute.type) else attribute.type
            )
            if attribute.writable:
                lines.append(f"    {name}: {annotation}")
            else:
                lines += ["    @property", f"    def {name}(self) -> {annotation}: ..."]
        return lines

    def declared_method(self, cls: Class, name: str) -> Function | None:
        """The declaration of a method, in the class or in one that it inherits from."""
        lineage = self.project.lineage(self.module, cls.name)
        return next((owner.functions[name] for _, owner in lineage if name in owner.functions), None)

    def empty_attributes(self, module: str, node: ast.ClassDef) -> set[str]:
        """Attributes that may be None, as this class or one that inherits from it says."""
        found = attributes_of_optional_arguments(node)
        if node.name in self.project.declarations(module).classes:
            for other, relative in self.project.family(module, node.name):
                related = self.project.class_node(other, relative.name)
                if related is not None:
                    writable = {name for name, attribute in relative.attributes.items() if attribute.writable}
                    found |= optional_attributes(related, writable) | attributes_of_optional_arguments(related)
        return found

    @staticmethod
    def is_object(annotation: str) -> bool:
        return annotation not in ("int", "bool", "float")

    def function_lines(
        self, node: FunctionNode, declared: Function | None, cls: Class | None, indent: str
    ) -> list[str]:
        if declared is not None and not declared.visible:
            return []
        if node.name in self.declared.hidden:
            return []
        decorators = [f"{indent}@{ast.unparse(one)}" for one in node.decorator_list if "cython" not in ast.unparse(one)]
        arguments = self.arguments(node, declared, cls, inside=bool(indent))
        result = self.result(node, declared, cls)
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        return [*decorators, f"{indent}{word} {node.name}({arguments}) -> {result}: ..."]

    def result(self, node: FunctionNode, declared: Function | None, cls: Class | None) -> str:
        if node.returns is not None:
            return _annotation(node.returns)
        if node.name in _RESULTS:
            return _RESULTS[node.name]
        if is_generator(node):
            return "Iterator[Any]"
        if declared is None or declared.result == "Any":
            values = returned(node)
            raises = any(isinstance(one, ast.Raise) for one in node.body)
            overridden = cls is not None and self.is_overridden(cls, node.name)
            return (
                "None"
                if not raises and not overridden and all(value is None or is_none(value) for value in values)
                else "Any"
            )
        if declared.result in ("int", "bool", "float", "None"):
            return declared.result
        functions = [node] if cls is None else self.overrides(cls, node.name)
        return or_none(declared.result) if any(map(can_return_none, functions)) else declared.result

    def overrides(self, cls: Class, name: str) -> list[FunctionNode]:
        """The method of this name in every class of the family: one that returns None speaks for all."""
        found: list[FunctionNode] = []
        for module, relative in self.project.family(self.module, cls.name):
            node = self.project.class_node(module, relative.name)
            if node is not None:
                found += [child for child in node.body if isinstance(child, FunctionNode) and child.name == name]
        return found

    def is_overridden(self, cls: Class, name: str) -> bool:
        return len(self.overrides(cls, name)) > 1

    def arguments(self, node: FunctionNode, declared: Function | None, cls: Class | None, inside: bool) -> str:
        spec = node.args
        bound = inside and not any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
        positional = [*spec.posonlyargs, *spec.args]
        defaults = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
        parts: list[str] = []
        for index, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
            if bound and index == 0:
                parts.append(argument.arg)
                continue
            place = index - 1 if bound else index
            known = declared.arguments[place] if declared is not None and place < len(declared.arguments) else None
            parts.append(self.argument(node, argument, default, known, cls))
        if spec.vararg is not None:
            parts.append(f"*{spec.vararg.arg}: {_annotation(spec.vararg.annotation)}")
        elif spec.kwonlyargs:
            parts.append("*")
        for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            parts.append(self.argument(node, argument, default, None, cls))
        if spec.kwarg is not None:
            parts.append(f"**{spec.kwarg.arg}: {_annotation(spec.kwarg.annotation)}")
        return ", ".join(parts)

    def argument(
        self, node: FunctionNode, argument: ast.arg, default: ast.expr | None, known: str | None, cls: Class | None
    ) -> str:
        annotation = self.argument_type(node, argument, known, cls)
        if argument.annotation is None:
            functions = self.overrides(cls, node.name) if cls is not None and known is not None else [node]
            if is_none(default) or any(argument.arg in compared_with_none(function) for function in functions):
                annotation = or_none(annotation)
        return f"{argument.arg}: {annotation}" + (" = ..." if default is not None else "")

    def argument_type(self, node: FunctionNode, argument: ast.arg, known: str | None, cls: Class | None) -> str:
        if argument.annotation is not None:
            return _annotation(argument.annotation)
        if known is not None:
            return known
        if node.name in _COMPARISONS:
            return "object"
        if cls is not None:
            inherited = self.inherited_type(node, argument.arg, cls)
            if inherited is not None:
                return inherited
            attribute = attributes_from_arguments(node).get(argument.arg)
            for module, ancestor in self.project.lineage(self.module, cls.name):
                if attribute is not None and attribute in ancestor.types:
                    known = ancestor.types[attribute]
                    owner = self.project.class_node(module, ancestor.name)
                    optional = owner is not None and attribute in self.empty_attributes(module, owner)
                    return or_none(known) if optional and self.is_object(known) else known
        return "Any"

    def inherited_type(self, node: FunctionNode, name: str, cls: Class) -> str | None:
        """The type of a constructor's argument that is handed on to the constructor of an ancestor."""
        for call in own_nodes(node):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in {f"{base}.__init__" for base in cls.bases}:
                base = ast.unparse(call.func).partition(".")[0]
                writer = StubWriter(self.project, self.declared.imports.get(base, self.module))
                owner = self.project.class_node(writer.module, base)
                init = next((one for one in owner.body if is_init(one)), None) if owner is not None else None
                places = [place for place, given in enumerate(call.args) if ast.unparse(given) == name]
                if init is not None and places and places[0] < len(init.args.args):
                    taken = init.args.args[places[0]]
                    ancestor = writer.declared.classes.get(base)
                    return writer.argument_type(init, taken, None, ancestor)
        return None

    def import_lines(self, body: list[str]) -> list[str]:
        """Imports for the names that stand in the stub."""
        code = "\n".join(body)
        used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        used |= set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"[\"'](.*?)[\"']", code)))) & set(
            self.python_imports()
        )
        defined = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef)}
        homes: dict[str, set[str]] = {}
        for name in used - defined - set(dir(builtins)):
            if name in ("Any", "final"):
                homes.setdefault("typing", set()).add(name)
            elif name == "Iterator":
                homes.setdefault("collections.abc", set()).add(name)
            elif name in self.python_imports():
                homes.setdefault(self.python_imports()[name], set()).add(name)
            elif name in self.declared.imports:
                homes.setdefault(self.declared.imports[name], set()).add(name)
            elif (home := self.home_of(name)) is not None:
                homes.setdefault(home, set()).add(name)
        return [f"from {home} import {', '.join(sorted(names))}" for home, names in sorted(homes.items())]

    def python_imports(self) -> dict[str, str]:
        nodes = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom) and node.module)
        return {alias.name: node.module or "" for node in nodes for alias in node.names}

    def home_of(self, name: str) -> str | None:
        """The module of a class that this module names only through one that it inherits from."""
        return next(
            (module for module in self.project.modules if name in self.project.declarations(module).classes), None
        )


def _annotation(node: ast.expr | None) -> str:
    if node is None:
        return "Any"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def stubs(source: Path) -> dict[Path, str]:
    """The stub of every compiled module, by the path where it stands."""
    project = Project(source)
    return {project.path(module).with_suffix(".pyi"): StubWriter(project, module).text() for module in project.modules}
