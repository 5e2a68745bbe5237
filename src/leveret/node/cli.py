"""The command line: `leveret serve`, `leveret storage`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from leveret import __version__
from leveret.errors import ConfigError, StartupError, StoppedByFailure
from leveret.node.storage_commands import storage


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="leveret")
def main() -> None:
    """Leveret, a message broker that speaks AMQP 0-9-1."""


main.add_command(storage)


@main.command()
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings.")
@click.option("--data-dir", help="Where this node keeps its data.")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port for AMQP, 0 for any free one.  [default: 5672]")
@click.option("--management-port", type=int, help="Port for the management API (not used yet).")
@click.option("--metrics-port", type=int, help="Port for Prometheus metrics (not used yet).")
@click.option("--stream-port", type=int, help="Port for the stream protocol, 0 for any free one.  [default: 5552]")
@click.option("--log-level", help="debug, info, warning or error.  [default: info]")
def serve(
    config: Path | None,
    data_dir: str | None,
    host: str | None,
    port: int | None,
    management_port: int | None,
    metrics_port: int | None,
    stream_port: int | None,
    log_level: str | None,
) -> None:
    """Run one node in the foreground."""
    # Imported here, so that the other commands start without the broker.
    from leveret.node.config.loading import load
    from leveret.node.serve import serve as run

    overrides = {
        "data_dir": data_dir,
        "log_level": log_level,
        "listen.host": host,
        "listen.port": port,
        "listen.management_port": management_port,
        "listen.metrics_port": metrics_port,
        "listen.stream_port": stream_port,
    }
    try:
        run(load(config, overrides, os.environ).settings)
    except (ConfigError, StartupError, StoppedByFailure) as error:
        click.echo(f"leveret: {error}", err=True)
        sys.exit(1)
