"""The data directory: backups of it while the broker runs, and what its start found damaged or missing."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from leveret.auth.access import Right
from leveret.management.http.bodies import BACKUP, BACKUP_BODY, DAMAGES
from leveret.management.http.errors import not_found
from leveret.management.http.fields import Fields
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import route
from leveret.storage.backup import Backups


@route(
    "POST",
    "/api/backup",
    Right.ADMINISTRATOR,
    "Begin a backup into a directory of the broker's machine",
    answers={202: BACKUP},
    accepts=BACKUP_BODY,
)
async def post_backup(request: Request) -> Answer:
    """`to` is an absolute path that is not there, or an empty directory. One backup runs at a time."""
    fields = Fields(request.body)
    fields.need("to")
    to, copy = fields.text("to"), fields.flag("copy")
    request.noted["to"] = to
    backups = _backups(request)
    await backups.start(to, request.services.broker.clock.wall, copy)
    return Answer(202, _shown(backups), {"Location": "/api/backup"})


@route("GET", "/api/backup", Right.MONITORING, "The backup that is being made, or the last one", answers={200: BACKUP})
def get_backup(request: Request) -> dict[str, Any]:
    return _shown(_backups(request))


@route(
    "GET",
    "/api/storage/damages",
    Right.MONITORING,
    "What the start found damaged or missing in the data directory",
    answers={200: DAMAGES},
)
def get_damages(request: Request) -> list[dict[str, Any]]:
    store = request.services.broker.store
    return [
        {"file": str(damage.path), "offset": damage.offset, "size": damage.size, "what": damage.what}
        for damage in ([] if store is None else store.damages)
    ]


def _backups(request: Request) -> Backups:
    store = request.services.broker.store
    if store is None or store.backups is None:
        raise not_found()
    return store.backups


def _shown(backups: Backups) -> dict[str, Any]:
    return {"state": "none"} if backups.status is None else asdict(backups.status)
