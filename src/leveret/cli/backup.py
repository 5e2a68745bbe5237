"""`leveret backup`"""

from __future__ import annotations

import os
import time
from typing import Any

import click

from leveret.cli.asking import done
from leveret.cli.exit_codes import Failed
from leveret.cli.output import JSON, print_one, safe
from leveret.cli.target import Target, targeted

POLL_S = 0.2


@click.command()
@targeted
@click.option("--to", required=True, metavar="DIR", help="Directory on the broker's machine: empty or not existing.")
@click.option("--copy", is_flag=True, help="Copy every file, even where a hard link is possible.")
@click.option("--detach", is_flag=True, help="Do not wait for completion; see `leveret api /backup`.")
def backup(target: Target, to: str, copy: bool, detach: bool) -> None:
    """Back up everything while the broker runs: queues with their messages, streams, definitions, users.

    `leveret restore DIR --data-dir NEW` makes a data directory of it."""
    if target.client.is_local:
        to = os.path.abspath(to)
    made = target.client.post("/backup", {"to": to, "copy": copy})
    if not detach:
        made = _watched(target, made)
    if made["state"] == "failed":
        raise Failed(f"the backup failed: {made['error']}")
    if target.form == JSON:
        print_one(made, JSON)
    elif made["state"] == "done":
        done(f"backed up {made['files']} files, {made['bytes']} octets, to {safe(to)}")
    else:
        done(f"the backup to {safe(to)} has begun")


def _watched(target: Target, made: dict[str, Any]) -> dict[str, Any]:
    """Waits for the end, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("backing up", total=None)
        while made["state"] == "running":
            time.sleep(POLL_S)
            made = target.client.get("/backup")
            bar.update(shown, completed=made["bytes"], total=made["bytes_total"] or None)
    return made
