"""`leveret users`, `leveret permissions`, `leveret topic-permissions`"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from leveret.cli.asking import confirm, done, first_line, in_vhost, yes_option
from leveret.cli.client import part
from leveret.cli.output import print_rows, safe
from leveret.cli.target import Target, targeted

USER_COLUMNS = ("name", "tags", "limits")
PERMISSION_COLUMNS = ("user", "vhost", "configure", "write", "read")
SUSPENDED_COLUMNS = ("user", "since", "reason")
TOPIC_COLUMNS = ("user", "vhost", "exchange", "write", "read")


new_password_option = click.option(
    "--new-password-file", metavar="FILE", type=click.Path(path_type=Path), help="The password is its first line."
)


def asked_password(of: str, file: Path | None = None) -> str:
    """From a file, from the terminal twice, or one line of what comes in. Never from the command line, where others see
    it."""
    if file is not None:
        return first_line(file)
    if sys.stdin.isatty():
        password: str = click.prompt(f"Password of {safe(of)}", hide_input=True, confirmation_prompt=True, err=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")


@click.group()
def users() -> None:
    """List, add and delete users."""


@users.command("list")
@targeted
def list_users(target: Target) -> None:
    """List users."""
    rows = [{key: value for key, value in row.items() if key != "password_hash"} for row in target.client.get("/users")]
    print_rows(rows, USER_COLUMNS, target.form)


@users.command()
@targeted
@click.argument("user")
@click.option(
    "--tag", "-t", "tags", multiple=True, help="administrator, monitoring, policymaker, management; repeatable."
)
@click.option("--no-password", is_flag=True, help="The user logs in with a certificate or a token only.")
@click.option("--grant", is_flag=True, help="All rights in the virtual host.")
@new_password_option
def add(
    target: Target, user: str, tags: tuple[str, ...], no_password: bool, grant: bool, new_password_file: Path | None
) -> None:
    """Add a user; the password is asked for, comes by standard input, or from a file."""
    secret = {"password_hash": ""} if no_password else {"password": asked_password(user, new_password_file)}
    body = {"tags": ",".join(tags), **secret}
    made = target.client.put(f"/users/{part(user)}", body)
    if grant:
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        target.client.put(in_vhost(target, "permissions", user), rights)
    done(f"added {safe(user)}" if made == 201 else f"changed {safe(user)}")


@users.command()
@targeted
@click.argument("user")
@yes_option
def delete(target: Target, user: str, yes: bool) -> None:
    """Delete a user, whose connections are closed."""
    confirm(f"Delete user {safe(user)} and close all connections?", yes)
    target.client.delete(f"/users/{part(user)}")
    done(f"deleted {safe(user)}")


@users.command()
@targeted
@click.argument("user")
@new_password_option
def passwd(target: Target, user: str, new_password_file: Path | None) -> None:
    """Set another password; it is asked for, comes by standard input, or from a file."""
    tags = target.client.get(f"/users/{part(user)}")["tags"]
    target.client.put(f"/users/{part(user)}", {"password": asked_password(user, new_password_file), "tags": tags})
    done(f"changed the password of {safe(user)}")


@users.command()
@targeted
@click.argument("user")
@click.argument("tags", nargs=-1)
def tags(target: Target, user: str, tags: tuple[str, ...]) -> None:
    """Set a user's tags; without any they are taken away."""
    known = target.client.get(f"/users/{part(user)}")
    body = {
        "password_hash": known["password_hash"],
        "hashing_algorithm": known["hashing_algorithm"],
        "tags": list(tags),
    }
    target.client.put(f"/users/{part(user)}", body)
    done(f"{safe(user)} has the tags {', '.join(tags)}" if tags else f"{safe(user)} has no tags")


@users.command("hash")
@targeted
def hash_password(target: Target) -> None:
    """The hash of a password, as definitions have it; it is asked for, or comes by standard input."""
    answer = target.client.post("/auth/hash_password", {"password": asked_password("the user")})
    click.echo(answer["password_hash"])


# ---- after damage


@users.command()
@targeted
def suspended(target: Target) -> None:
    """Users who are not let in, because the catalog was damaged and may have brought rights back."""
    print_rows(target.client.get("/suspended-users"), SUSPENDED_COLUMNS, target.form)


@users.command("release")
@targeted
@click.argument("names", nargs=-1, metavar="[USER]...")
@click.option("--all", "everybody", is_flag=True, help="All suspended users.")
@yes_option
def release_users(target: Target, names: tuple[str, ...], everybody: bool, yes: bool) -> None:
    """Let suspended users in again, with the rights that they have now. Look at these first."""
    if bool(names) == everybody:
        raise click.UsageError("give NAMES or --all")
    confirm("Are tags, passwords and permissions as they should be?", yes)
    for path in ["/suspended-users"] if everybody else [f"/suspended-users/{part(name)}" for name in names]:
        target.client.delete(path)
    done("released all users" if everybody else f"released {', '.join(map(safe, names))}")


# ---- permissions


@click.group()
def permissions() -> None:
    """Who may configure, write and read what."""


@permissions.command("list")
@targeted
@click.option("--of", "user", metavar="USER", help="Only of this user.")
def list_permissions(target: Target, user: str | None) -> None:
    """List permissions."""
    path = f"/users/{part(user)}/permissions" if user is not None else "/permissions"
    print_rows(target.client.get(path), PERMISSION_COLUMNS, target.form)


@permissions.command("set")
@targeted
@click.argument("user")
@click.argument("configure", default=".*")
@click.argument("write", default=".*")
@click.argument("read", default=".*")
def set_permissions(target: Target, user: str, configure: str, write: str, read: str) -> None:
    """Regular expressions for names of queues and exchanges; .* unless they are given."""
    target.client.put(in_vhost(target, "permissions", user), {"configure": configure, "write": write, "read": read})
    done(f"{safe(user)} has permissions in {safe(target.vhost)}")


@permissions.command("clear")
@targeted
@click.argument("user")
def clear_permissions(target: Target, user: str) -> None:
    """Take a user's permissions in the virtual host away; its connections there are closed."""
    target.client.delete(in_vhost(target, "permissions", user))
    done(f"{safe(user)} has no permissions in {safe(target.vhost)}")


@click.group("topic-permissions")
def topic_permissions() -> None:
    """Who may use which routing keys."""


@topic_permissions.command("list")
@targeted
@click.option("--of", "user", metavar="USER", help="Only of this user.")
def list_topic_permissions(target: Target, user: str | None) -> None:
    """List topic permissions."""
    path = f"/users/{part(user)}/topic-permissions" if user is not None else "/topic-permissions"
    print_rows(target.client.get(path), TOPIC_COLUMNS, target.form)


@topic_permissions.command("set")
@targeted
@click.argument("user")
@click.argument("exchange")
@click.argument("write")
@click.argument("read")
def set_topic_permissions(target: Target, user: str, exchange: str, write: str, read: str) -> None:
    """Regular expressions for routing keys at a topic exchange."""
    body = {"exchange": exchange, "write": write, "read": read}
    target.client.put(in_vhost(target, "topic-permissions", user), body)
    done(f"{safe(user)} has topic permissions for {safe(exchange)}")


@topic_permissions.command("clear")
@targeted
@click.argument("user")
@click.argument("exchange", required=False)
def clear_topic_permissions(target: Target, user: str, exchange: str | None) -> None:
    """Take them away, for one exchange or all."""
    names = [user] if exchange is None else [user, exchange]
    target.client.delete(in_vhost(target, "topic-permissions", *names))
    done(f"cleared topic permissions of {safe(user)}")
