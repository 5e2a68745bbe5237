"""`leveret config`: is the configuration good, what does it come to, and what could stand in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from leveret.errors import ConfigError
from leveret.node.config.loading import load
from leveret.node.config.settings import Settings
from leveret.node.config.sources import configuration_files

_config = click.option(
    "--config", type=click.Path(path_type=Path), help="TOML file with settings.  [default: that of `leveret serve`]"
)


@click.group()
def config() -> None:
    """Check and show the configuration, as `leveret serve` would have it here and now."""


@config.command()
@_config
def check(config: Path | None) -> None:
    """Say everything that is wrong: exit status 0 if nothing is, else 1."""
    from leveret.node.config.checks import check_files, exposed_files

    problems: list[str] = []
    try:
        loaded = load(config, {}, os.environ)
        problems += check_files(loaded)
        if not problems:
            _try_files(loaded.settings)
    except ConfigError as error:
        problems += str(error).splitlines()
    for problem in problems:
        click.echo(problem)
    if problems:
        sys.exit(1)
    for line in exposed_files(loaded):
        click.echo(f"warning: {line}", err=True)
    files = ", ".join(str(path) for path in configuration_files(config))
    click.echo(f"the configuration is good: {files or 'no file, so defaults and the environment'}")


def _try_files(settings: Settings) -> None:
    """Reads certificates and keys as the node would, if there are any; raises ConfigError."""
    if settings.tls.certificate:
        from leveret.node.certificates import load_certificates

        load_certificates(settings)
    if settings.auth.tokens.enabled:
        from leveret.node.auth import auth_settings

        auth_settings(settings)


@config.command()
@_config
@click.option("-o", "--output", type=click.Choice(["toml", "json"]), default="toml", show_default=True)
@click.option("--sources", is_flag=True, help="Say where each value comes from.")
def show(config: Path | None, output: str, sources: bool) -> None:
    """Print every setting with the value that counts; secrets are not shown."""
    from leveret.node.config.writing import as_json, as_toml

    try:
        loaded = load(config, {}, os.environ)
    except ConfigError as error:
        for line in str(error).splitlines():
            click.echo(f"leveret: {line}", err=True)
        sys.exit(1)
    click.echo(as_json(loaded, sources) if output == "json" else as_toml(loaded, sources), nl=False)


@config.command("schema")
def show_schema() -> None:
    """Print a JSON schema of the file, for editors and checkers."""
    from leveret.node.config.writing import schema

    click.echo(schema(), nl=False)
