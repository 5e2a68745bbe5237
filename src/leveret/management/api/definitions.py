"""Definitions: everything that is not a message, out as JSON and in again."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from leveret.auth.access import Right
from leveret.broker.definition_plan import CHANGE, CREATE, Plan
from leveret.broker.definitions import DefinitionService
from leveret.management.http.bodies import DEFINITIONS
from leveret.management.http.errors import bad_request
from leveret.management.http.json import decode, encode
from leveret.management.http.lists import LOOK_EVERY, PIECE_BYTES
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Parameter, Scope, Size, route
from leveret.runtime.time_slice import TimeSlice

DOWNLOAD = (Parameter("download", "Name of the file that a browser is to keep it as."),)
CONFLICTS = (
    Parameter(
        "conflicts",
        "What becomes of queues and exchanges that exist and differ: refuse (nothing is imported) or keep (they stay).",
        {"type": "string", "enum": ["refuse", "keep"]},
    ),
)
BOUNDARY_CHARACTERS_MAX = 70
PARTS_MAX = 16
PART_HEAD_BYTES_MAX = 4096
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@route(
    "GET",
    "/api/definitions",
    Right.ADMINISTRATOR,
    "Everything but messages",
    query=DOWNLOAD,
    private=True,
    answers={200: DEFINITIONS},
)
@route("GET", "/api/all-configuration", Right.ADMINISTRATOR, "An old name of it", query=DOWNLOAD, private=True)
def get_definitions(request: Request) -> Answer:
    return Answer(body=_pieces(request.services.definitions, None), headers=_disposition(request))


@route(
    "GET",
    "/api/definitions/{vhost}",
    Right.ADMINISTRATOR,
    "What is in a virtual host",
    scope=Scope.NAME,
    query=DOWNLOAD,
    private=True,
    answers={200: DEFINITIONS},
)
def get_vhost_definitions(request: Request) -> Answer:
    if request.path["vhost"] not in request.services.broker.vhosts:
        raise bad_request("vhost_not_found")
    return Answer(body=_pieces(request.services.definitions, request.path["vhost"]), headers=_disposition(request))


async def _pieces(definitions: DefinitionService, vhost: str | None) -> AsyncIterator[bytes]:
    """A slice at a time, between which the loop serves other requests."""
    # Without the brace that closes it.
    buffer = bytearray(encode(definitions.heading(vhost))[:-1])
    turn = TimeSlice()
    for section in definitions.sections(vhost):
        buffer += b',"' + section.name.encode() + b'":['
        for count, record in enumerate(section.records):
            buffer += b"," * bool(count) + encode(section.show(record))
            if count % LOOK_EVERY == 0 and turn.is_over:
                if len(buffer) >= PIECE_BYTES:
                    yield bytes(buffer)
                    buffer.clear()
                await turn.rest()
        buffer += b"]"
    yield bytes(buffer + b"}")


@route(
    "POST",
    "/api/definitions",
    Right.ADMINISTRATOR,
    "Import definitions",
    size=Size.LARGE,
    query=CONFLICTS,
    accepts=DEFINITIONS,
)
@route(
    "POST",
    "/api/all-configuration",
    Right.ADMINISTRATOR,
    "An old name of it",
    size=Size.LARGE,
    query=CONFLICTS,
    accepts=DEFINITIONS,
)
async def post_definitions(request: Request) -> Answer:
    return await _import(request, None)


@route(
    "POST",
    "/api/definitions/{vhost}",
    Right.ADMINISTRATOR,
    "Import definitions into a virtual host; users and the like in them are passed over",
    scope=Scope.NAME,
    size=Size.LARGE,
    query=CONFLICTS,
    accepts=DEFINITIONS,
)
async def post_vhost_definitions(request: Request) -> Answer:
    return await _import(request, request.vhost.name)


@route(
    "POST",
    "/api/definitions/diff",
    Right.ADMINISTRATOR,
    "What an import would change, and what stands against it",
    size=Size.LARGE,
    query=(Parameter("vhost", "As if it were imported into this virtual host."),),
    answers={200: Any},
    harmless=True,
    accepts=DEFINITIONS,
)
def post_difference(request: Request) -> dict[str, Any]:
    vhost = request.query.get("vhost")
    if vhost is not None and vhost not in request.services.broker.vhosts:
        raise bad_request("vhost_not_found")
    return shown_plan(request.services.definitions.compare(_definitions(request), vhost))


async def _import(request: Request, vhost: str | None) -> Answer:
    conflicts = request.query.get("conflicts", "refuse")
    if conflicts not in ("refuse", "keep"):
        raise bad_request(f"conflicts is {conflicts[:64]!r}; it must be refuse or keep")
    definitions = request.services.definitions
    found = await definitions.read(_definitions(request), vhost)
    plan = await request.durably(lambda: definitions.apply(found, keep=conflicts == "keep"))
    request.noted["changes"] = len(plan.steps)
    return DONE


def shown_plan(plan: Plan) -> dict[str, Any]:
    def steps(action: str) -> list[dict[str, Any]]:
        return [
            {
                "kind": step.kind,
                **({"vhost": step.vhost} if step.vhost else {}),
                "name": step.name,
                **({"fields": list(step.fields)} if step.fields else {}),
            }
            for step in plan.steps
            if step.action == action
        ]

    return {
        "create": steps(CREATE),
        "change": steps(CHANGE),
        "unchanged": plan.unchanged,
        "problems": [{"place": place, "reason": text} for place, text in plan.problems],
        "notices": [{"place": place, "reason": text} for place, text in plan.notices],
    }


def _definitions(request: Request) -> Any:
    """The body, or the part called file of a form."""
    if not isinstance(request.body, bytes):
        if request.body is None:
            raise bad_request("not_json")
        return request.body
    part = form_part(request.headers.get("content-type", ""), request.body, "file")
    if part is None:
        raise bad_request("failed_to_parse_json")
    return decode(part)


def form_part(content_type: str, body: bytes, wanted: str) -> bytes | None:
    """One part of a multipart form, by its name."""
    if "\r" in content_type or "\n" in content_type:
        return None
    form = BytesParser(policy=HTTP).parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n")
    boundary = form.get_param("boundary")
    if not isinstance(boundary, str) or not 0 < len(boundary) <= BOUNDARY_CHARACTERS_MAX or not boundary.isascii():
        return None
    # Cut in one go: a parser for mail would go through it line by line.
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), PARTS_MAX)
    for piece in pieces[1:]:
        head, blank, payload = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not blank or len(head) > PART_HEAD_BYTES_MAX:
            continue
        part = BytesParser(policy=HTTP).parsebytes(head + b"\r\n\r\n", headersonly=True)
        if part.get_param("name", header="content-disposition") == wanted:
            return payload
    return None


def _disposition(request: Request) -> dict[str, str]:
    name = request.query.get("download")
    if name is None:
        return {}
    if _SAFE_NAME.fullmatch(name) is None:
        name = "definitions.json"
    return {"Content-Disposition": f"attachment; filename={name}"}
