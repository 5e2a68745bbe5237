"""Asks a live broker how it differs: over AMQP as far as that goes, or exactly over its management API."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from leveret.client.deadline import within
from leveret.client.errors import ChannelClosed, ClientError
from leveret.client.topology.caller import Caller, Until
from leveret.client.topology.conflict import TopologyConflict
from leveret.client.topology.diff import Diff, Difference, compare
from leveret.client.topology.methods import Thing, declaring, looking
from leveret.client.topology.records import Binding, Exchange, Queue

__all__ = ["ManagementFailed", "diff_over_amqp", "diff_over_http"]

NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
# An answer longer than this is none that we want to hold.
ANSWER_BYTES_MAX: Final = 256 << 20
# Every broker has exchanges of its own, under these names.
OWN_PREFIX: Final = "amq."


class ManagementFailed(ClientError):
    """The management API could not be asked, or did not answer as it should."""


async def diff_over_amqp(wanted: Sequence[Thing], caller: Caller, until: Until) -> Diff:
    """A passive declare first, because a plain one would make what is missing; then, if the thing is there, the
    declare itself, which the broker refuses with the first difference."""
    diff = Diff()
    for thing in wanted:
        if isinstance(thing, Binding):
            diff.unchecked.append(thing)
            continue
        try:
            await caller.call(partial(looking, thing), thing, until)
            # A queue that the broker named cannot be declared by that name.
            if not thing.name.startswith(OWN_PREFIX):
                await caller.call(partial(declaring, thing), thing, until)
        except TopologyConflict as conflict:
            field = conflict.argument or "something"
            diff.different.append(Difference(thing, field, conflict.declared, conflict.existing))
        except ChannelClosed as error:
            if error.code == NOT_FOUND:
                diff.missing.append(thing)
            elif error.code == RESOURCE_LOCKED:
                diff.different.append(Difference(thing, "exclusive", False, "another connection's"))
            else:
                raise
    return diff


async def diff_over_http(wanted: Sequence[Thing], management: str, virtual_host: str, deadline_s: float) -> Diff:
    """Over the HTTP API in a thread. Queues that belong to one connection are that connection's business, so they are
    unexpected to nobody."""
    work = asyncio.to_thread(lambda: list(_everything(management, virtual_host, deadline_s)))
    found = await within(deadline_s, "the management API", work)
    known = {thing.name for thing in wanted if isinstance(thing, Queue)}
    private = {thing.name for thing in found if isinstance(thing, Queue) and thing.exclusive} - known
    return compare(wanted, [thing for thing in found if not _belongs_to(thing, private)])


def _belongs_to(thing: Thing, queues: set[str]) -> bool:
    if isinstance(thing, Binding):
        return thing.to == "queue" and thing.destination in queues
    return isinstance(thing, Queue) and thing.name in queues


def _everything(management: str, virtual_host: str, deadline_s: float) -> Iterator[Thing]:
    """All that the virtual host has, but for what every virtual host has."""
    where = quote(virtual_host, safe="")
    for item in _fetch(management, f"exchanges/{where}", deadline_s):
        if item["name"] and not item["name"].startswith(OWN_PREFIX):
            yield Exchange(
                item["name"],
                item["type"],
                durable=item["durable"],
                auto_delete=item["auto_delete"],
                internal=item["internal"],
                arguments=item["arguments"],
            )
    for item in _fetch(management, f"queues/{where}", deadline_s):
        yield Queue(
            item["name"],
            durable=item["durable"],
            exclusive=bool(item.get("exclusive")),
            auto_delete=item["auto_delete"],
            arguments=item["arguments"],
        )
    for item in _fetch(management, f"bindings/{where}", deadline_s):
        if item["source"]:
            yield Binding(
                item["source"],
                item["destination"],
                item["routing_key"],
                item["destination_type"],
                item["arguments"],
            )


def _fetch(management: str, path: str, deadline_s: float) -> list[dict[str, Any]]:
    """Never quotes the address in an error: there is a password in it."""
    parts = urlsplit(management)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("management must be an address such as http://user:password@host:15672")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{host}:{parts.port}" if parts.port else host
    request = urllib.request.Request(f"{parts.scheme}://{place}{parts.path.rstrip('/')}/api/{path}")
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=deadline_s) as answer:
            body: bytes = answer.read(ANSWER_BYTES_MAX)
        items = json.loads(body)
    except urllib.error.HTTPError as error:
        with error:
            raise ManagementFailed(f"the management API at {place} answers /api/{path} with {error.code}") from None
    except (OSError, ValueError) as error:
        raise ManagementFailed(f"the management API at {place} cannot be asked for /api/{path}: {error}") from None
    if not isinstance(items, list):
        raise ManagementFailed(f"the management API at {place} answers /api/{path} with no list")
    return items
