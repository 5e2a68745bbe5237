"""`leveret queues move`: a shovel that ends by itself, with its progress."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import click

from leveret.cli.asking import done, first_line, in_vhost
from leveret.cli.client import part
from leveret.cli.exit_codes import Failed
from leveret.cli.output import safe
from leveret.cli.target import Target, targeted

POLL_S = 0.3
PREFETCH = 5000
NOT_FOUND = 404


@click.command()
@targeted
@click.argument("source")
@click.argument("destination")
@click.option("--to", "to_url", metavar="URL", help="The broker to move to, such as amqp://user@host; else this one.")
@click.option("--to-file", type=click.Path(path_type=Path), help="The URL is the first line of this file.")
@click.option("--count", "-n", type=click.IntRange(1), help="Number of messages.  [default: all that are ready now]")
@click.option("--detach", is_flag=True, help="Do not wait for completion; see `leveret shovels list`.")
def move(
    target: Target,
    source: str,
    destination: str,
    to_url: str | None,
    to_file: Path | None,
    count: int | None,
    detach: bool,
) -> None:
    """Move the messages of a queue to another queue, here or in another broker. None is lost on the way: each leaves
    its queue when the other broker has confirmed it."""
    if to_url is not None and to_file is not None:
        raise click.UsageError("give --to or --to-file, not both")
    waiting = target.client.get(in_vhost(target, "queues", source))["messages_ready"]
    name = f"move-{secrets.token_hex(4)}"
    value = {
        "src-uri": "amqp://",
        "src-queue": source,
        "src-predeclared": True,
        "src-prefetch-count": PREFETCH,
        "src-delete-after": "queue-length" if count is None else count,
        "dest-uri": first_line(to_file) if to_file is not None else to_url or "amqp://",
        "dest-queue": destination,
        "reconnect-delay": 1,
    }
    path = f"/parameters/shovel/{part(target.vhost)}/{part(name)}"
    target.client.put(path, {"component": "shovel", "name": name, "value": value})
    if detach:
        done(f"shovel {name} moves {safe(source)} to {safe(destination)}")
        return
    try:
        _watch(target, name, source, waiting if count is None else count)
    except KeyboardInterrupt:
        target.client.delete(path)
        raise
    done(f"moved {safe(source)} to {safe(destination)}")


def _watch(target: Target, name: str, source: str, total: int) -> None:
    """Waits until the shovel has deleted itself, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    told = ""
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(f"moving {safe(source)}", total=total)
        while (status := _status(target, name)) is not None:
            bar.update(shown, completed=status.get("leveret", {}).get("messages_confirmed", 0))
            reason = status.get("reason", "")
            if reason and reason != told:
                told = reason
                done(f"{status['state']}: {safe(reason)}; it is tried again")
            time.sleep(POLL_S)


def _status(target: Target, name: str) -> dict[str, Any] | None:
    """None once the shovel is gone; what it is before it has started, too."""
    try:
        found: dict[str, Any] = target.client.get(f"/shovels/vhost/{part(target.vhost)}/{part(name)}")
    except Failed as error:
        if error.status != NOT_FOUND:
            raise
        try:
            target.client.get(f"/parameters/shovel/{part(target.vhost)}/{part(name)}")
        except Failed:
            return None
        return {}
    return found
