"""The file that a migration writes: our settings with where each comes from, and what was not taken, as comments."""

from __future__ import annotations

from leveret.node.config.declaring import declarations, section_names
from leveret.node.config.writing import toml_value
from leveret.node.migrate.findings import UNSUPPORTED, Migration
from leveret.runtime.secret import Secret


def as_file(migration: Migration, source: str) -> str:
    lines = [f"# Made by `leveret migrate` from {_one_line(source)}."]
    refused = [finding for finding in migration.findings if finding.verdict == UNSUPPORTED]
    if refused:
        lines += ["#", "# Not supported:"]
        lines += [f"#   {_one_line(finding.what)}: {_one_line(finding.text)}" for finding in refused]
    for section in section_names():
        keys = [key for key in declarations() if key in migration.values and key.rpartition(".")[0] == section]
        if not keys:
            continue
        lines += ["", f"[{section}]"] if section else [""]
        for key in keys:
            value = migration.values[key]
            text = toml_value(value.reveal() if isinstance(value, Secret) else value)
            lines += [f"# {_one_line(', '.join(migration.origins[key]))}", f"{key.rpartition('.')[2]} = {text}"]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """A comment ends with its line, whatever stands in it."""
    return "".join(character if character.isprintable() else "?" for character in text)
