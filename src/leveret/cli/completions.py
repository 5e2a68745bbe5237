"""`leveret completions`"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from leveret.cli.exit_codes import Failed


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completions(ctx: click.Context, shell: str) -> None:
    """The script that teaches your shell to complete commands: source <(leveret completions bash)"""
    kind = get_completion_class(shell)
    if kind is None:
        raise Failed(f"there is no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "leveret", "_LEVERET_COMPLETE").source())
