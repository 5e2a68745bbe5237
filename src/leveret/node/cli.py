"""The command line: which commands there are. Each lives in a module of its own that is imported when it is run, so
that `leveret --help` and small commands start at once."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from leveret import __version__


class Place(NamedTuple):
    """Where a command is, and its line in `leveret --help`."""

    module: str
    name: str
    summary: str


COMMANDS = {
    "config": Place("leveret.node.config_commands", "config", "Check and show the configuration."),
    "serve": Place("leveret.node.serve_command", "serve", "Run one node in the foreground."),
    "storage": Place("leveret.node.storage_commands", "storage", "Look into a data directory."),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        command = getattr(importlib.import_module(place.module), place.name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leveret")
def main() -> None:
    """Leveret, a message broker that speaks AMQP 0-9-1."""
