"""`leveret vhosts`, `leveret limits`"""

from __future__ import annotations

import click

from leveret.cli.asking import confirm, done, yes_option
from leveret.cli.client import part
from leveret.cli.output import print_rows, safe
from leveret.cli.target import Target, targeted

COLUMNS = ("name", "description", "tags", "default_queue_type", "messages", "protected_from_deletion")
OF_VHOSTS = ("max-connections", "max-queues")
OF_USERS = ("max-connections", "max-channels")


@click.group()
def vhosts() -> None:
    """List, add and delete virtual hosts."""


@vhosts.command("list")
@targeted
def list_vhosts(target: Target) -> None:
    """List virtual hosts."""
    print_rows(target.client.get("/vhosts"), COLUMNS, target.form)


@vhosts.command()
@targeted
@click.argument("name")
@click.option("--description", default="")
@click.option("--tags", default="", metavar="A,B")
@click.option("--default-queue-type", help="classic, quorum or stream.")
def add(target: Target, name: str, description: str, tags: str, default_queue_type: str | None) -> None:
    """Add a virtual host, or change its description."""
    body = {"description": description, "tags": tags}
    if default_queue_type is not None:
        body["default_queue_type"] = default_queue_type
    made = target.client.put(f"/vhosts/{part(name)}", body)
    done(f"added {safe(name)}" if made == 201 else f"changed {safe(name)}")


@vhosts.command()
@targeted
@click.argument("name")
@yes_option
def delete(target: Target, name: str, yes: bool) -> None:
    """Delete a virtual host with everything in it."""
    confirm(f"Delete virtual host {safe(name)} with all its queues and messages?", yes)
    target.client.delete(f"/vhosts/{part(name)}")
    done(f"deleted {safe(name)}")


@vhosts.command()
@targeted
@click.argument("name")
@click.option("--off", is_flag=True, help="Remove the protection.")
def protect(target: Target, name: str, off: bool) -> None:
    """Protect a virtual host from deletion."""
    path = f"/vhosts/{part(name)}/deletion/protection"
    if off:
        target.client.delete(path)
    else:
        target.client.post(path)
    done(f"{safe(name)} {'may be deleted' if off else 'is protected'}")


# ---- limits


@click.group()
def limits() -> None:
    """How many connections, channels and queues there may be."""


@limits.command("list")
@targeted
def list_limits(target: Target) -> None:
    """List all limits."""
    rows = [
        {"of": kind, "name": row[kind], "limit": limit, "value": value}
        for kind, path in (("vhost", "/vhost-limits"), ("user", "/user-limits"))
        for row in target.client.get(path)
        for limit, value in row["value"].items()
    ]
    print_rows(rows, ("of", "name", "limit", "value"), target.form)


def _path(kind: str, name: str, limit: str) -> str:
    allowed = OF_VHOSTS if kind == "vhost" else OF_USERS
    if limit not in allowed:
        raise click.UsageError(f"a {kind} has no limit {limit!r}; it has {' and '.join(allowed)}")
    return f"/{kind}-limits/{part(name)}/{limit}"


kind_argument = click.argument("kind", type=click.Choice(["vhost", "user"]))


@limits.command("set")
@targeted
@kind_argument
@click.argument("name")
@click.argument("limit")
@click.argument("value", type=int)
def set_limit(target: Target, kind: str, name: str, limit: str, value: int) -> None:
    """Set a limit of a virtual host or a user; -1 for none."""
    target.client.put(_path(kind, name, limit), {"value": value})
    done(f"{limit} of {kind} {safe(name)} is {value}")


@limits.command("clear")
@targeted
@kind_argument
@click.argument("name")
@click.argument("limit")
def clear_limit(target: Target, kind: str, name: str, limit: str) -> None:
    """Take a limit away."""
    target.client.delete(_path(kind, name, limit))
    done(f"{kind} {safe(name)} has no {limit}")
