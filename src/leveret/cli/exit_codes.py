"""How a command ends when it does not succeed: one line for people, one number for scripts.

0   done
1   the broker refused, or what was looked for is not there, or a check failed
2   the command line makes no sense (click's own)
69  no broker can be reached (EX_UNAVAILABLE)
77  not allowed: wrong password, or the user may not (EX_NOPERM)"""

from __future__ import annotations

from typing import IO, Any

import click

from leveret.cli.output import safe


class Ended(click.ClickException):
    def show(self, file: IO[Any] | None = None) -> None:
        # What a broker answers may repeat what some client made up.
        click.echo(f"leveret: {safe(self.message)}", err=True)


class Failed(Ended):
    exit_code = 1

    def __init__(self, message: str, status: int = 0, told: Any = None) -> None:
        super().__init__(message)
        self.status = status
        # The whole answer, if there was one.
        self.told = told


class Unreachable(Ended):
    exit_code = 69


class NotAllowed(Ended):
    exit_code = 77
