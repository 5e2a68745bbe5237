"""Python's `re` tries every way to match, so that a pattern can take for ever; whatever came from outside is matched by
catalog/patterns.py, in linear time. In the server's rooms `re` is for patterns that stand in our own source."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.tidy.tree import ROOT, parsed, python_files

SERVER = (
    "core",
    "runtime",
    "wire",
    "catalog",
    "storage",
    "routing",
    "queues",
    "auth",
    "broker",
    "operations",
    "session",
    "management",
    "node",
)
COMPILES = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
# Who may import re, and why a pattern of theirs cannot take long.
ALLOWED = {
    "broker/definition_plan.py": "takes a reason of our own apart",
    "auth/scopes.py": "looks for one percent sign",
    "auth/tokens.py": "three runs of letters between dots; a control character",
    "catalog/delays.py": "ten digits and a unit",
    "catalog/parameters.py": "a password in an address; runs between delimiters",
    "catalog/policy_keys.py": "digits and a unit",
    "core/codec/amqp10_values.py": "hexadecimal digits by count",
    "core/matching/header_condition.py": "a number of bounded length; an operator and the rest",
    "core/matching/super_stream_matcher.py": "eighteen digits",
    "management/api/definitions.py": "a file's name of bounded length",
    "management/http/openapi.py": "paths of our own routes",
    "management/metrics/exposition.py": "names of our own metrics",
    "node/config/checks.py": "settings of the operator",
    "node/migrate/listeners.py": "a file that the operator converts",
    "node/migrate/findings.py": "a file that the operator converts; the patterns are our own",
    "node/migrate/rabbitmq_conf.py": "a file that the operator converts",
    "routing/consistent_hash.py": "a run of digits",
    "runtime/https.py": "the beginning of an address",
    "runtime/memory.py": "files of the kernel",
    "runtime/process.py": "files of the kernel",
    "runtime/tls_peer.py": "names of ciphers, by OpenSSL",
    "storage/backup_list.py": "lines of our own files",
    "storage/layout.py": "a line of our own file",
    "storage/rescue.py": "names of our own files",
    "wire/codec.py": "names of our own classes",
}


def server_files() -> dict[str, ast.Module]:
    paths = (path.relative_to("src/leveret") for path in python_files("src") if Path("src/leveret") in path.parents)
    return {str(path): parsed(ROOT / "src/leveret" / path) for path in paths if path.parts[0] in SERVER}


def imports_re(module: ast.Module) -> bool:
    for node in ast.walk(module):
        if isinstance(node, ast.Import) and any(name.name.split(".")[0] in ("re", "re2") for name in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("re", "re2", "fnmatch"):
            return True
    return False


def computed_patterns(module: ast.Module) -> list[int]:
    """Lines where re is given a pattern that does not stand there."""
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in COMPILES
        and not isinstance(node.args[0], ast.Constant)
    ]


def test_only_these_import_re() -> None:
    importing = {name for name, module in server_files().items() if imports_re(module)} - {"catalog/patterns.py"}
    assert importing == set(ALLOWED)


def test_their_patterns_stand_in_the_source() -> None:
    computed = {name for name, module in server_files().items() if computed_patterns(module)}
    # A join of counts, and the migration's table of rules.
    assert computed == {"core/codec/amqp10_values.py", "node/migrate/findings.py"}


def test_a_computed_pattern_is_seen() -> None:
    assert computed_patterns(ast.parse("import re\nre.search(given, name)\nre.search('a', name)")) == [2]
    assert imports_re(ast.parse("def f():\n    from re import search")) and not imports_re(ast.parse("import rest"))
