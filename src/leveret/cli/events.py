"""`leveret audit`, `leveret events`: what was done, and what happens now."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import click

from leveret.cli.asking import until_interrupted
from leveret.cli.output import CSV, JSON, cell, moment, print_rows, safe
from leveret.cli.target import Target, targeted

AUDIT_COLUMNS = ("time", "user", "peer", "via", "action", "names", "outcome")


@click.command()
@targeted
@click.option("--by", metavar="USER", help="Only actions of this user.")
@click.option("--action", metavar="TEXT", help="Only actions with this in them, such as queue.delete.")
@click.option("--outcome", type=click.Choice(["done", "refused", "failed"]), help="Only actions with this outcome.")
@click.option("--since", metavar="MOMENT", help="Only actions since then, such as 2026-01-31T12:00:00Z.")
@click.option("--count", "-n", default=50, show_default=True, help="Number of entries at most.")
def audit(
    target: Target, by: str | None, action: str | None, outcome: str | None, since: str | None, count: int
) -> None:
    """Who changed what, the newest first."""
    found = target.client.each("/audit", user=by, action=action, outcome=outcome, since=since)
    print_rows(islice(found, count), AUDIT_COLUMNS, target.form)


@click.command()
@targeted
@click.option("--past", is_flag=True, help="Show the events that the broker remembers, then exit.")
@click.option("--only-vhost", is_flag=True, help="Only events of the virtual host of --vhost.")
@click.option("--count", "-n", type=int, help="Stop after this many events.")
@until_interrupted()
def events(target: Target, past: bool, only_vhost: bool, count: int | None) -> None:
    """Watch what is made, changed and deleted, who comes and goes, and alarms."""
    coming = target.client.events("/events", vhost=target.vhost if only_vhost else None, once=past or None)
    if target.form == CSV:
        click.echo("at,event,what")
    for kind, what in islice(coming, count):
        _print_event(kind, what, target.form)


def _print_event(kind: str, what: dict[str, Any], form: str) -> None:
    if form == JSON:
        click.echo(json.dumps({"event": kind, **what}, ensure_ascii=False))
        return
    at = what.pop("at", None)
    if form == CSV:
        print_rows([{"at": at, "event": kind, "what": what}], ("at", "event", "what"), CSV, head=False)
        return
    when = moment(at / 1000) if at is not None else ""
    click.echo(f"{when}  {click.style(safe(kind), bold=True)}  {safe(cell(what))}")
