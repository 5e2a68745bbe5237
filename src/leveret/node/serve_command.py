"""`leveret serve`: the options that settings are declared with, and what becomes of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from leveret.errors import ConfigError, StartupError, StoppedByFailure
from leveret.node.config.declaring import Declaration, declarations, kind_text


def port_or_off(text: str) -> int | str:
    if text == "off" or text.isdecimal():
        return text if text == "off" else int(text)
    raise ValueError(f"{text!r} is neither a port nor off")


def _option(declaration: Declaration) -> click.Option:
    # A dot cannot stand in a parameter's name.
    name = declaration.key.replace(".", "__")
    default = f"  [default: {declaration.default}]" if declaration.default != "" else ""
    words = kind_text(declaration.kind)
    kind: Any = str
    metavar = None
    if "a whole number" in words:
        kind, metavar = (int, "PORT") if declaration.plain_kind is int else (port_or_off, "PORT|off")
    elif words.startswith("one of "):
        metavar = words.removeprefix("one of ").replace(", ", "|")
    return click.Option(
        [declaration.flag, name], type=kind, help=declaration.description.replace("`", "") + default, metavar=metavar
    )


@click.command(params=[_option(each) for each in declarations().values() if each.flag])
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
def serve(config: Path | None, **options: Any) -> None:
    """Run one node in the foreground.

    Everything that can be set stands in the configuration; `leveret config show` prints it. SIGHUP makes the node read
    it again."""
    # Imported here, so that the help does not need the broker.
    from leveret.node.config.checks import exposed_files
    from leveret.node.config.loading import load
    from leveret.node.config.settings import Settings
    from leveret.node.serve import serve as run

    flags = {name.replace("__", "."): value for name, value in options.items()}

    def read() -> Settings:
        loaded = load(config, flags, os.environ)
        for line in exposed_files(loaded):
            click.echo(f"leveret: warning: {line}", err=True)
        return loaded.settings

    try:
        run(read)
    except (ConfigError, StartupError, StoppedByFailure) as error:
        for line in str(error).splitlines():
            click.echo(f"leveret: {line}", err=True)
        sys.exit(1)
