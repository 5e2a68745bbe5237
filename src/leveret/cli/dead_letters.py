"""`leveret dlq`: dead letters looked at and sent back."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from leveret.cli.asking import done, in_vhost, json_of
from leveret.cli.client import part
from leveret.cli.exit_codes import Failed
from leveret.cli.messages import print_messages
from leveret.cli.output import JSON, print_one, print_rows, safe
from leveret.cli.target import Target, targeted

TASK_COLUMNS = ("id", "vhost", "queue", "state", "matched", "moved", "skipped", "failed", "created_at")
GROUP_COLUMNS = ("reason", "count", "replayed", "first_death_s", "last_death_s")
ALERT_COLUMNS = ("time", "kind", "vhost", "queue", "count", "archive", "error")
SCHEDULE_COLUMNS = ("vhost", "queue", "every_s", "archive_after_s", "set_by", "next_at")
POLL_S = 0.3


@click.group()
def dlq() -> None:
    """Look at dead letters and send them back."""


@dlq.command("list")
@targeted
def list_dead_letters(target: Target) -> None:
    """Queues that hold dead letters, with where they come from and why."""
    found = target.client.get("/dead-letters")
    if target.form == JSON:
        print_rows(found, (), JSON)
        return
    rows = [
        {"vhost": row["vhost"], "queue": row["name"], "died_in": group["queue"], **group_columns(group)}
        for row in found
        for group in row["groups"]
    ]
    print_rows(rows, ("vhost", "queue", "died_in", *GROUP_COLUMNS), target.form)


def group_columns(group: dict[str, Any]) -> dict[str, Any]:
    return {name: group[name] for name in GROUP_COLUMNS}


@dlq.command()
@targeted
@click.argument("queue")
@click.option("--count", "-n", default=10, show_default=True)
@click.option("--offset", default=0)
def inspect(target: Target, queue: str, count: int, offset: int) -> None:
    """Look at dead letters without taking them."""
    found = target.client.get(in_vhost(target, "queues", queue, "peek"), count=count, offset=offset)
    print_messages(found, target.form)


@dlq.command()
@targeted
@click.argument("queue")
@click.option(
    "--to",
    "mode",
    type=click.Choice(["original_exchange", "original_queue", "target"]),
    default="original_exchange",
    show_default=True,
)
@click.option("--exchange", default="", help="For --to target.")
@click.option("--routing-key", default="", help="For --to target.")
@click.option("--limit", type=int, default=0, help="Replay at most this many messages.")
@click.option("--rate", type=float, default=0.0, help="Replay at most this many messages per second.")
@click.option("--filter", "wanted", metavar="JSON", help='Which, such as {"reason": "expired", "age_s_min": 60}.')
@click.option("--dry-run", is_flag=True, help="Count the matching messages without replaying them.")
@click.option("--detach", is_flag=True, help="Do not wait for completion; see `leveret dlq tasks`.")
def replay(
    target: Target,
    queue: str,
    mode: str,
    exchange: str,
    routing_key: str,
    limit: int,
    rate: float,
    wanted: str | None,
    dry_run: bool,
    detach: bool,
) -> None:
    """Send dead letters back to where they came from."""
    body: dict[str, Any] = {"mode": mode, "limit": limit, "rate": rate, "dry_run": dry_run, "wait": 0}
    if mode == "target":
        body |= {"exchange": exchange, "routing_key": routing_key}
    if wanted is not None:
        body["filter"] = json_of(wanted, "--filter")
    task = target.client.post(in_vhost(target, "queues", queue, "reprocess"), body)
    if not detach:
        task = _watched(target, task)
    if target.form == JSON:
        click.echo(json.dumps(task, indent=2))
    else:
        print_one(task, target.form)
    if task.get("state") == "failed":
        raise Failed(f"the replay failed: {task.get('last_error', '')}")


def _watched(target: Target, task: dict[str, Any]) -> dict[str, Any]:
    """Waits for the end, with a progress bar on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(f"replaying {safe(task['queue'])}", total=None)
        while task.get("state") == "running":
            time.sleep(POLL_S)
            task = target.client.get(f"/tasks/{part(task['id'])}")
            over = sum(task[name] for name in ("moved", "archived", "skipped", "failed"))
            bar.update(shown, completed=over, total=over + task["remaining"])
    return task


@dlq.command()
@targeted
@click.option("--cancel", metavar="ID", help="Cancel this task.")
def tasks(target: Target, cancel: str | None) -> None:
    """Replays that run, and the last ones."""
    if cancel is not None:
        target.client.delete(f"/tasks/{part(cancel)}")
        done(f"cancelled {safe(cancel)}")
        return
    print_rows(target.client.get("/tasks"), TASK_COLUMNS, target.form)


@dlq.command()
@targeted
def alerts(target: Target) -> None:
    """The last alerts about letters that were given up, or that could not be archived."""
    found = target.client.get("/dead-letter-alerts")
    print_rows(found["alerts"], ALERT_COLUMNS, target.form)


@dlq.command()
@targeted
@click.argument("queue", required=False)
@click.option("--every", metavar="TIME", help="Retry interval, such as 1h or 30min; off for never.")
@click.option("--archive-after", metavar="TIME", help="Archive messages older than this, such as 24h; off for never.")
@click.option("--clear", is_flag=True, help="Use the policies and the configuration again.")
def schedule(target: Target, queue: str | None, every: str | None, archive_after: str | None, clear: bool) -> None:
    """When letters are retried by themselves: list it, or set it for a queue."""
    if queue is None:
        if every is not None or archive_after is not None or clear:
            raise click.UsageError("give a QUEUE")
        print_rows(target.client.get("/dead-letter-schedules"), SCHEDULE_COLUMNS, target.form)
        return
    path = f"/parameters/reprocess-schedule/{part(target.vhost)}/{part(queue)}"
    if clear:
        target.client.delete(path)
        done(f"cleared the schedule of {safe(queue)}")
        return
    given = {"every": every, "archive-after": archive_after}
    value = {key: text for key, text in given.items() if text is not None}
    if not value:
        raise click.UsageError("give --every, --archive-after or --clear")
    target.client.put(path, {"component": "reprocess-schedule", "name": queue, "value": value})
    done(f"set the schedule of {safe(queue)}")
