"""The command `leveretctl`."""

from __future__ import annotations

import os
import sys

import click

from leveret.cli.ctl import link_verbs, state, verbs  # noqa: F401 - imported for the verbs in them
from leveret.cli.ctl.listing import LISTINGS, run_listing
from leveret.cli.ctl.registry import VERBS
from leveret.cli.ctl.usage import OPTIONS, print_usage
from leveret.cli.ctl.words import Misuse, Words, parse
from leveret.cli.exit_codes import Ended
from leveret.cli.output import safe
from leveret.cli.target import make_client

# Verbs that make no sense here, and what to do instead.
ELSEWHERE = {
    "stop": "send SIGTERM to the process, or stop its service",
    "shutdown": "send SIGTERM to the process, or stop its service",
    "stop_app": "there is no application apart from the process; stop its service",
    "start_app": "there is no application apart from the process; start its service",
    "reset": "stop the broker and remove its data directory",
    "force_reset": "stop the broker and remove its data directory",
    "rotate_logs": "the log goes to standard error; the program that stores it rotates it",
    "eval": "there is no Erlang here",
    "set_log_level": "change log_level in the configuration and send SIGHUP",
    "set_disk_free_limit": "change alarms.disk_free_bytes_min in the configuration and send SIGHUP",
    "set_vm_memory_high_watermark": "change alarms.memory_watermark in the configuration and send SIGHUP",
    "join_cluster": "clusters are not built yet",
    "forget_cluster_node": "clusters are not built yet",
    "sync_queue": "there are no mirrored queues",
    "cancel_sync_queue": "there are no mirrored queues",
}


def main(arguments: list[str] | None = None) -> None:
    """Exit status as rabbitmqctl's: 64 for what makes no sense, 69 if no broker is there; 1 or 77 if it refuses."""
    try:
        _run(parse(sys.argv[1:] if arguments is None else arguments))
    except Ended as end:
        click.echo(f"Error: {safe(end.message)}", err=True)
        sys.exit(end.exit_code)
    except click.UsageError as error:
        click.echo(f"Error: {safe(error.message)}", err=True)
        sys.exit(Misuse.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)


def _run(words: Words) -> None:
    if words.verb == "help" and not words.rest:
        _help()
        return
    if words.verb == "help":
        words = Words(words.rest[0], options={"help": ""})
    if words.verb in ELSEWHERE:
        raise Misuse(f"leveretctl has no {words.verb}: {ELSEWHERE[words.verb]}")
    if words.verb not in VERBS and words.verb not in LISTINGS:
        raise Misuse(f"leveretctl has no {words.verb}; see `leveretctl help`{_near(words.verb)}")
    if words.has("help"):
        print_usage(words.verb)
        return
    options, kept = words.options, os.environ.get
    client, _ = make_client(
        options.get("url", kept("LEVERET_URL")),
        options.get("socket", kept("LEVERET_SOCKET")),
        kept("LEVERET_CONTEXT"),
        options.get("user", kept("LEVERET_USER")),
        options.get("password-file"),
        options.get("ca"),
    )
    if words.verb in LISTINGS:
        run_listing(client, words, LISTINGS[words.verb])
    else:
        VERBS[words.verb](client, words)


def _near(verb: str) -> str:
    import difflib

    near = difflib.get_close_matches(verb, [*VERBS, *LISTINGS], 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _help() -> None:
    click.echo("leveretctl takes these verbs of rabbitmqctl and rabbitmq-diagnostics. For new scripts see `leveret`.\n")
    for name in sorted([*VERBS, *LISTINGS]):
        click.echo(f"  {name}")
    click.echo("\n`leveretctl VERB --help` shows the usage of a verb.\n")
    click.echo(OPTIONS)
