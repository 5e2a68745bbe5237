"""`leveret cluster`: make a cluster, let nodes join it, and see its nodes."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leveret.errors import LeveretError
from leveret.node.cli import LazyGroup, Place

if TYPE_CHECKING:
    from leveret.cluster.links.address import Address
    from leveret.cluster.members.credentials import Files

NOT_YET = "note: `leveret serve` does not run in a cluster yet; this makes and distributes the credentials only"

PLACES = {
    "init": Place("leveret.node.cluster.commands", "init", "Make a cluster, with this node as its first."),
    "join": Place("leveret.node.cluster.commands", "join", "Join a cluster with a token."),
    "renew": Place("leveret.node.cluster.commands", "renew", "Renew the certificate of the node with the authority."),
    "status": Place("leveret.cli.status", "cluster_status", "The nodes and their state."),
    "token": Place("leveret.node.cluster.commands", "token", "Make a token by which a node can join."),
}

cluster = LazyGroup("cluster", PLACES, help="Make and join a cluster of nodes, and see their state.")

_data_dir = click.option(
    "--data-dir", type=click.Path(path_type=Path), help="The data directory.  [default: that of `leveret serve`]"
)
_address = click.option(
    "--address",
    metavar="HOST:PORT",
    help="Where other nodes reach this one.  [default: the machine's name, port 25672]",
)
_name = click.option("--node-name", help="[default: leveret@ and the machine's name]")


@click.command()
@_data_dir
@click.option("--name", "cluster_name", default="leveret", show_default=True, help="The name of the cluster.")
@_name
@_address
def init(data_dir: Path | None, cluster_name: str, node_name: str | None, address: str | None) -> None:
    """Make a cluster, with this node as its first: an authority of its own, and the node's certificate."""
    from leveret.cluster.members.authority import init_cluster
    from leveret.runtime.dice import Dice

    with _telling():
        files, here = _files(data_dir), _reached(address)
        made = init_cluster(files, cluster_name, node_name or _default_name(), here, Dice().salt, time.time())
    click.echo(
        f"made the cluster {made.cluster_name!r}; this is node {made.node}, {made.node_name!r}, at {made.address}"
    )
    click.echo(f"its authority and this node's credentials are in {files.directory}: back them up, keep them secret")
    click.echo("next: `leveret cluster token` here, then `leveret cluster join TOKEN` on another node")
    click.echo(NOT_YET, err=True)


@click.command()
@_data_dir
@click.option("--address", metavar="HOST:PORT", help="Where the new node reaches this one.  [default: as of `init`]")
@click.option("--uses", type=click.IntRange(1, 100), default=1, show_default=True, help="How many nodes may use it.")
@click.option("--hours", type=click.IntRange(1, 168), default=24, show_default=True, help="How long it can be used.")
@click.option("--revoke", is_flag=True, help="Make none, but revoke all that can still be used.")
@click.option("--wait", "listen", metavar="HOST:PORT", help="Answer nodes that join at this address, until all have.")
def token(data_dir: Path | None, address: str | None, uses: int, hours: int, revoke: bool, listen: str | None) -> None:
    """Make a token by which a node can join, on the node with the authority. It is one line, and a secret."""
    from leveret.cluster.links.address import parse_address
    from leveret.cluster.members.authority import Authority
    from leveret.cluster.members.token import token_line
    from leveret.runtime.dice import Dice

    with _telling():
        authority = Authority(_files(data_dir))
        if revoke:
            click.echo(f"revoked {authority.revoke_tokens(time.time())}")
            return
        reached = parse_address(address or authority.identity.address)
        at = None if listen is None else parse_address(listen)
        made = authority.make_token(reached, Dice().salt, time.time(), uses, hours * 3600)
        click.echo(token_line(made))
        ends = datetime.datetime.fromtimestamp(made.ends_at, datetime.UTC)
        click.echo(f"for {uses} node{'s' if uses > 1 else ''}, until {ends:%Y-%m-%d %H:%M} UTC", err=True)
        if at is not None:
            from leveret.node.cluster.admitting import admit

            admit(_files(data_dir), authority, at, uses, made.ends_at, lambda text: click.echo(text, err=True))


@click.command()
@click.argument("token")
@_data_dir
@_name
@_address
def join(token: str, data_dir: Path | None, node_name: str | None, address: str | None) -> None:
    """Join a cluster with a TOKEN, or - to read it from standard input, where no other user of the machine sees it.
    The node that made it must answer. Run again with a new token, it renews the certificate."""
    from leveret.cluster.members import joining
    from leveret.cluster.members.credentials import read_identity
    from leveret.cluster.members.token import parse_token

    with _telling():
        wanted = parse_token(sys.stdin.readline(2000) if token == "-" else token)
        files = _files(data_dir)
        found = read_identity(files)
        name = node_name or (found.node_name if found else _default_name())
        here = _reached(address or (found.address if found else None))
        made = joining.join(files, wanted, name, here, time.time())
    click.echo(f"this is node {made.node}, {made.node_name!r}, of the cluster {made.cluster_name!r}, at {made.address}")
    click.echo(f"its credentials are in {files.directory}: keep them secret, and never copy them to another node")
    click.echo(NOT_YET, err=True)


@click.command()
@_data_dir
def renew(data_dir: Path | None) -> None:
    """Renew the certificate of the node with the authority. Other nodes join again, with a new token."""
    from leveret.cluster.members.authority import Authority

    with _telling():
        ends = Authority(_files(data_dir)).renew_own(time.time())
    click.echo(f"the certificate of this node now ends at {ends:%Y-%m-%d}")


@contextmanager
def _telling() -> Iterator[None]:
    """What goes wrong on purpose is one line."""
    try:
        yield
    except (LeveretError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or 'the data directory'}: {error.strerror or error}") from None


def _files(data_dir: Path | None) -> Files:
    from leveret.cluster.members.credentials import Files
    from leveret.node.config.settings import default_data_dir

    return Files.of(data_dir or Path(default_data_dir()))


def _reached(address: str | None) -> Address:
    from leveret.cluster.links.address import parse_address
    from leveret.runtime.process import machine_name

    return parse_address(address or machine_name())


def _default_name() -> str:
    from leveret.node.config.settings import Settings

    return Settings().chosen_node_name
