"""The tables of docs/configuration.md, made from the declarations.

`python -m leveret.node.config.documentation docs/configuration.md` writes them between their two marks; `make docs`
does that, and a tidy test fails if the page differs."""

from __future__ import annotations

import sys
from pathlib import Path

from leveret.node.config.declaring import Declaration, declarations, kind_text, section_names
from leveret.node.config.writing import toml_value

BEGIN = "<!-- Made by `make docs` from src/leveret/node/config; do not edit. -->"
END = "<!-- End of what is made. -->"


def tables() -> str:
    lines: list[str] = []
    for section, about in section_names().items():
        lines += ["", f"### [{section}]" if section else "### The node", "", f"{about[0].upper()}{about[1:]}.", ""]
        lines += ["| Key | Default | Reload | |", "|---|---|---|---|"]
        for key, declaration in declarations().items():
            if key.rpartition(".")[0] == section:
                lines.append(_row(declaration))
    return "\n".join(lines[1:]) + "\n"


def _row(declaration: Declaration) -> str:
    name = declaration.key.rpartition(".")[2]
    default = toml_value(declaration.default.reveal() if declaration.secret else declaration.default)
    words = [declaration.description, _values(declaration)]
    if declaration.secret:
        words.append(f"Or `{name}_file`: the file that holds it.")
    if declaration.flag:
        words.append(f"Flag `{declaration.flag}`.")
    text = " ".join(filter(None, words)).replace("|", "\\|")
    return f"| `{name}` | `{default}` | {'yes' if declaration.live else ''} | {text} |"


def _values(declaration: Declaration) -> str:
    """Which values there are, where neither the default nor the description tells."""
    text = kind_text(declaration.kind)
    if "one of " in text:
        before, _, names = text.partition("one of ")
        listed = ", ".join(f"`{name}`" for name in names.split(", "))
        return f"{'Any' if before else 'One'} of {listed}."
    if " from " in text and "off" not in text:
        return f"From {text.partition(' from ')[2]}."
    return ""


def with_tables(page: str) -> str:
    """The page with what is between the marks made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN if not begin else END}")
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text("utf-8")), "utf-8")
