"""The command line: which commands there are. Each lives in a module of its own that is imported when it is run, so
that `leveret --help` and small commands start at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from leveret import __version__


class Place(NamedTuple):
    """Where a command is, and its line in `leveret --help`."""

    module: str
    name: str
    summary: str


COMMANDS = {
    "api": Place("leveret.cli.status", "api", "Any request to the management API."),
    "audit": Place("leveret.cli.events", "audit", "Who changed what."),
    "backup": Place("leveret.cli.backup", "backup", "Copy everything to a directory while the broker runs."),
    "bindings": Place("leveret.cli.exchanges", "bindings", "List, make and delete bindings."),
    "channels": Place("leveret.cli.connections", "channels", "List channels."),
    "check": Place("leveret.cli.status", "check", "Is it healthy? For probes and scripts."),
    "cluster": Place("leveret.node.cluster.commands", "cluster", "Make and join a cluster of nodes."),
    "completions": Place("leveret.cli.completions", "completions", "Completion for your shell."),
    "config": Place("leveret.node.config_commands", "config", "Check and show the configuration."),
    "connections": Place("leveret.cli.connections", "connections", "List and close connections."),
    "consumers": Place("leveret.cli.connections", "consumers", "List consumers."),
    "context": Place("leveret.cli.contexts", "context", "Brokers by name."),
    "definitions": Place("leveret.cli.definitions", "definitions", "Export, import and compare definitions."),
    "dlq": Place("leveret.cli.dead_letters", "dlq", "Look at dead letters and send them back."),
    "events": Place("leveret.cli.events", "events", "Watch what happens."),
    "exchanges": Place("leveret.cli.exchanges", "exchanges", "List, make and delete exchanges."),
    "federation": Place("leveret.cli.shovels", "federation", "Exchanges and queues that receive from other brokers."),
    "get": Place("leveret.cli.messages", "get", "Get messages from a queue."),
    "limits": Place("leveret.cli.vhosts", "limits", "How many connections, channels and queues there may be."),
    "migrate": Place("leveret.node.migrate_command", "migrate", "Take over settings and definitions of RabbitMQ."),
    "parameters": Place("leveret.cli.parameters", "parameters", "Settings that live in the broker."),
    "permissions": Place("leveret.cli.users", "permissions", "Who may configure, write and read what."),
    "pipeline": Place(
        "leveret.spark.pipeline.commands", "pipeline", "Tables of what flows through the broker, on Spark."
    ),
    "policies": Place("leveret.cli.policies", "policies", "Settings for many queues and exchanges at once."),
    "publish": Place("leveret.cli.messages", "publish", "Publish one message."),
    "queues": Place("leveret.cli.queues", "queues", "List, make, empty and watch queues."),
    "restore": Place("leveret.node.restore_command", "restore", "Make a data directory of a backup."),
    "serve": Place("leveret.node.serve_command", "serve", "Run one node in the foreground."),
    "shovels": Place("leveret.cli.shovels", "shovels", "Move messages between brokers, for as long as they run."),
    "sql": Place("leveret.spark.pipeline.querying.sql_command", "sql", "Ask streams, queues and the lake in SQL."),
    "status": Place("leveret.cli.status", "status", "How the broker is."),
    "storage": Place("leveret.node.storage_commands", "storage", "Look into a data directory."),
    "streams": Place("leveret.cli.streams", "streams", "Streams: who reads and writes them, and how far they are."),
    "support-bundle": Place("leveret.cli.bundle", "support_bundle", "All that helps to find out what is wrong."),
    "topic-permissions": Place("leveret.cli.users", "topic_permissions", "Who may use which routing keys."),
    "users": Place("leveret.cli.users", "users", "List, add and delete users."),
    "vhosts": Place("leveret.cli.vhosts", "vhosts", "List, add and delete virtual hosts."),
}


class LazyGroup(click.Group):
    """Knows where its commands are, and imports one when it is run."""

    def __init__(self, name: str, places: Mapping[str, Place], **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        if place is None:
            return None
        command = getattr(importlib.import_module(place.module), place.name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._places[name].summary) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, places=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leveret")
def main() -> None:
    """Leveret, a message broker that speaks AMQP 0-9-1."""
