"""`leveret` and `leveretctl` as tests call them: in this process, with a home of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@dataclass
class CommandLine:
    """Its options say where the broker is; `home` is where contexts and the default socket would be."""

    home: Path
    options: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str | None]:
        known: dict[str, str | None] = {name: None for name in os.environ if name.startswith("LEVERET_")}
        # Which half of the package runs is no matter of the broker's address.
        known.pop("LEVERET_PURE", None)
        return {**known, "XDG_CONFIG_HOME": str(self.home), "XDG_DATA_HOME": str(self.home), **self.environment}

    def run(self, *words: str, given: str = "") -> Ended:
        from leveret.node.cli import main

        result = CliRunner().invoke(main, [*words, *self.options], input=given, env=self.variables())
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    def __call__(self, *words: str, given: str = "") -> Ended:
        ended = self.run(*words, given=given)
        assert ended.status == 0, f"leveret {words}: {ended}"
        return ended

    def control(self, *words: str, given: str = "") -> Ended:
        """leveretctl, which is no click command but prints as one."""
        from leveret.cli.ctl.main import main

        @click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
        @click.argument("words", nargs=-1, type=click.UNPROCESSED)
        def leveretctl(words: tuple[str, ...]) -> None:
            main([*words, *self.options])

        result = CliRunner().invoke(leveretctl, ["--", *words], input=given, env=self.variables())
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)

    def process(self, *words: str, given: str = "", module: str = "leveret") -> Ended:
        """The same in a process of its own."""
        environment = {name: value for name, value in {**os.environ, **self.variables()}.items() if value is not None}
        command = [sys.executable, "-m", module, *words, *self.options]
        done = subprocess.run(
            command, env=environment, input=given, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
        )
        return Ended(done.returncode, done.stdout, done.stderr)


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command there is, by its words."""
    found: list[tuple[str, ...]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += leaves(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found
