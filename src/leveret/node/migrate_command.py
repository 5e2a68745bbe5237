"""`leveret migrate`: from a rabbitmq.conf, and definitions, to ours."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leveret.errors import ConfigError

if TYPE_CHECKING:
    from leveret.node.migrate.findings import Finding

_path = click.Path(path_type=Path)


@click.command()
@click.argument("rabbitmq_conf", type=_path)
@click.argument("definitions", type=_path, required=False)
@click.option("-o", "--output", type=_path, help="Where to write our settings, such as leveret.toml.")
@click.option("--definitions-out", type=_path, help="Where to write the definitions.")
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 if something is changed or not supported.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
def migrate(
    rabbitmq_conf: Path,
    definitions: Path | None,
    output: Path | None,
    definitions_out: Path | None,
    check: bool,
    force: bool,
) -> None:
    """Take the settings of a rabbitmq.conf over, and say of each key what became of it.

    DEFINITIONS is a file that RabbitMQ exported (rabbitmqctl export_definitions). Passwords stay as they are.
    advanced.config and other files of Erlang terms are not read."""
    if not check and output is None:
        raise click.UsageError("say where to write with -o, or --check to write nothing")
    if definitions_out is not None and definitions is None:
        raise click.UsageError("--definitions-out needs DEFINITIONS")
    try:
        text, made, findings = _converted(rabbitmq_conf, definitions, definitions_out)
        _print(findings)
        advanced = rabbitmq_conf.parent / "advanced.config"
        if advanced.exists():
            click.echo(f"{advanced} is not read: it is in Erlang terms. Look through it by hand.")
        if check:
            sys.exit(1 if any(finding.verdict in ("changed", "not supported") for finding in findings) else 0)
        assert output is not None
        _write(output, text, force)
        if definitions_out is not None:
            _write(definitions_out, made, force)
    except ConfigError as error:
        for line in str(error).splitlines():
            click.echo(f"leveret: {line}", err=True)
        sys.exit(2)


def _converted(conf: Path, definitions: Path | None, definitions_out: Path | None) -> tuple[str, str, list[Finding]]:
    """Our two files and what is to be told."""
    from leveret.node.migrate.conversion import convert
    from leveret.node.migrate.rabbitmq_conf import read_conf
    from leveret.node.migrate.toml_file import as_file

    migration = convert(read_conf(conf))
    findings = migration.findings
    made = ""
    if definitions is not None:
        import msgspec

        from leveret.node.migrate.definitions import adapt, refusals
        from leveret.node.migrate.headers_bindings import SETTING, needs_setting

        adapted, told = adapt(_read_json(definitions), str(definitions))
        findings = [*findings, *told, *refusals(adapted, str(definitions))]
        made = msgspec.json.format(msgspec.json.encode(adapted), indent=2).decode() + "\n"
        for parameter in adapted.get("global_parameters", ()):
            # Where `rabbitmqctl set_cluster_name` keeps it.
            if parameter["name"] == "cluster_name" and isinstance(parameter.get("value"), str):
                migration.values.setdefault("cluster_name", parameter["value"])
                migration.origins.setdefault("cluster_name", [f"global parameter in {definitions}"])
        if needs_setting(adapted):
            migration.set(SETTING, True, f"bindings of amq.headers or amq.match in {definitions}")
        if definitions_out is not None:
            migration.set("definitions.path", str(definitions_out.absolute()), str(definitions))
    return as_file(migration, str(conf)), made, findings


def _read_json(path: Path) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no JSON: {error}") from None


def _print(findings: list[Finding]) -> None:
    from leveret.node.migrate.findings import VERDICTS

    counts = Counter(finding.verdict for finding in findings)
    for verdict in VERDICTS:
        told = [finding for finding in findings if finding.verdict == verdict]
        if told:
            click.secho(verdict, bold=True)
        for finding in told:
            what = f"{finding.place}: {finding.what}" if finding.place else finding.what
            click.echo(f"  {_shown(what)}: {_shown(finding.text)}")
    click.echo(", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]) or "nothing is set")


def _shown(text: str) -> str:
    """Names come from files: none of them moves the cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _write(path: Path, text: str, force: bool) -> None:
    """For its owner alone: passwords and hashes are in it."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} is there already; --force writes over it") from None
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"wrote {path}")
