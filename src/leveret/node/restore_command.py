"""`leveret restore`: a data directory from a backup, every checksum verified. Needs no broker.

Imports nothing of the store until it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from leveret.node.storage_commands import opened_inspection
from leveret.node.stream_views import Progress

FAILED = 1


@click.command()
@click.argument("backup", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--data-dir", required=True, type=click.Path(path_type=Path), help="The new one: empty, or not there.")
def restore(backup: Path, data_dir: Path) -> None:
    """Make a data directory of a backup, for `leveret serve --data-dir`. Nothing in the backup is changed.

    Exit status 1 if the backup is not complete or a file in it is damaged: then nothing is restored."""
    from leveret.errors import LeveretError
    from leveret.storage.restore import Restore

    restoring = Restore(backup, data_dir, _progress("restored"))
    try:
        files = restoring.run()
        # The checksums of the files are right; those of the records in them tell whether the broker had damage before.
        inspection, _ = opened_inspection(data_dir)
        report = inspection.check()
        restoring.finish()
    except (LeveretError, OSError) as error:
        click.echo(f"leveret: {error}", err=True)
        sys.exit(FAILED)
    size = sum(file.size for file in files)
    click.echo(f"restored {len(files)} files, {size} octets, to {data_dir}", err=True)
    click.echo(
        f"{report.queues} durable queues with {report.messages} messages, {report.streams} streams with "
        f"{report.stream_messages} messages",
        err=True,
    )
    for damage in report.damages:
        click.echo(f"DAMAGE that was there when the backup was made: {damage}", err=True)


def _progress(verb: str) -> Callable[[int, int], None]:
    from leveret.runtime.clock import Clock

    if not sys.stderr.isatty():
        return lambda _done, _total: None
    return Progress(Clock().monotonic, lambda text: click.echo(text, err=True), verb, "")
