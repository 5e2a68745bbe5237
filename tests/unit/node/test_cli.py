"""The command line: help, version, and mistakes."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from leveret import __version__
from leveret.node.cli import main


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments), prog_name="leveret")
    return result.exit_code, result.output


def test_the_version_is_the_packages() -> None:
    assert run("--version") == (0, f"leveret, version {__version__}\n")


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_option_of_serve(flag: str) -> None:
    code, output = run("serve", flag)
    assert code == 0
    for option in (
        "--config",
        "--data-dir",
        "--host",
        "--port",
        "--management-port",
        "--metrics-port",
        "--stream-port",
        "--log-level",
    ):
        assert option in output


@pytest.mark.parametrize("arguments", [("serv",), ("serve", "--prot", "1"), ("serve", "--port", "many")])
def test_a_mistyped_command_line_is_exit_2(arguments: tuple[str, ...]) -> None:
    code, output = run(*arguments)
    assert code == 2
    assert "Usage: leveret" in output


def test_a_bad_setting_is_one_line_and_exit_1() -> None:
    code, output = run("serve", "--log-level", "loud")
    assert (code, output) == (1, "leveret: --log-level: log_level is 'loud'; use one of debug, info, warning, error\n")
