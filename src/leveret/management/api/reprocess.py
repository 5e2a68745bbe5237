"""Replaying dead letters, the jobs that do it, and where dead letters are."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Raw

from leveret.auth.access import READ, WRITE, Right, has, sees_vhost
from leveret.catalog.records import ReplayFilter
from leveret.core.codec.names import name_octets
from leveret.errors import ReplayNotFound
from leveret.management.api.visible import meant_vhosts
from leveret.management.http.bodies import REPROCESS_BODY, TASK
from leveret.management.http.errors import bad_request, not_authorised
from leveret.management.http.fields import Fields
from leveret.management.http.lists import shown
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import Scope, route
from leveret.operations.reprocess.spec import ORIGIN, ORIGIN_QUEUE, RUNNING, TARGET, JobView, ReplaySpec

MODES = {"original_exchange": ORIGIN, "original_queue": ORIGIN_QUEUE, "target": TARGET}
STOP, SKIP = "stop", "skip"
WAIT_S = 2.0
WAIT_S_MAX = 60.0
LOOK_S = 0.02


@route(
    "POST",
    "/api/queues/{vhost}/{queue}/reprocess",
    Right.MANAGEMENT,
    "Move dead letters back to where they died, or elsewhere",
    answers={200: TASK, 202: TASK},
    accepts=REPROCESS_BODY,
)
async def reprocess(request: Request) -> Answer:
    """200 if it is over within `wait` seconds, else 202 and the place where its progress is shown."""
    vhost = request.vhost
    who = request.requester()
    fields = Fields(request.body)
    wait_s = _number(fields, "wait", WAIT_S, WAIT_S_MAX)
    spec = _spec(fields)
    who.access.check_queue(READ, request.path["queue"])
    if spec.to == TARGET:
        who.access.check_exchange(WRITE, spec.exchange)
        target = vhost.exchanges.get(name_octets(spec.exchange))
        if target is not None and who.access.has_topics(target.record):
            if not spec.routing_key:
                raise bad_request("routing_key is missing: your topic permissions there are for certain keys")
            who.access.check_topic(WRITE, target.record, spec.routing_key)
    elif not has(request.who, Right.POLICYMAKER):
        # Where they go is written in their headers, and any client may have written those.
        raise not_authorised("Not policymaker user: to replay to original_exchange or original_queue takes that tag")
    reprocessor = request.services.reprocessor
    job = reprocessor.start(vhost.name, request.path["queue"], spec)
    deadline = asyncio.get_running_loop().time() + wait_s
    while job.state == RUNNING and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(LOOK_S)
        try:
            job = reprocessor.job(job.id)
        except ReplayNotFound:
            # Its queue was deleted, and it with it.
            break
    if job.state == RUNNING:
        return Answer(202, _shown(job), {"Location": f"/api/tasks/{job.id}"})
    return Answer(200, _shown(job))


def _number(fields: Fields, name: str, default: float, most: float) -> float:
    value = fields.values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise bad_request(f"{name} must be a number from 0 to {most:.0f}")
    return float(value)


def _spec(fields: Fields) -> ReplaySpec:
    mode = fields.text("mode", "original_exchange")
    if mode not in MODES:
        raise bad_request(f"mode must be one of {', '.join(MODES)}")
    failing = fields.text("on_unroutable", SKIP)
    if failing not in (STOP, SKIP):
        raise bad_request(f"on_unroutable must be {STOP} or {SKIP}")
    return ReplaySpec(
        to=MODES[mode],
        exchange=fields.text("exchange"),
        routing_key=fields.text("routing_key"),
        filter=_filter(fields.object("filter")),
        limit=fields.integer("limit", 0),
        rate=_number(fields, "rate", 0, 1e9),
        dry_run=fields.flag("dry_run"),
        stops=failing == STOP,
    )


def _filter(given: dict[str, Any]) -> ReplayFilter:
    part = given.get("body_contains")
    if part is not None:
        if not isinstance(part, str):
            raise bad_request("filter.body_contains must be a text")
        given = {**given, "body_contains": part.encode("utf-8", "replace")}
    try:
        return msgspec.convert(given, ReplayFilter)
    except msgspec.ValidationError as error:
        raise bad_request(f"filter: {error}") from None


def _shown(job: JobView) -> dict[str, Any]:
    spec = job.spec
    mode = next(name for name, to in MODES.items() if to == spec.to)
    return {
        "id": job.id,
        "kind": "reprocess",
        "vhost": job.vhost,
        "queue": job.queue,
        "state": job.state,
        "mode": mode,
        "exchange": spec.exchange,
        "routing_key": spec.routing_key,
        "limit": spec.limit,
        "rate": spec.rate,
        "dry_run": spec.dry_run,
        "on_unroutable": STOP if spec.stops else SKIP,
        "scheduled": job.scheduled,
        "created_at": job.created_ms,
        "ended_at": job.ended_ms or None,
        "matched": job.matched,
        "moved": job.moved,
        "archived": job.archived,
        "skipped": job.skipped,
        "failed": job.failed,
        "remaining": job.remaining,
        "moved_per_s": round(job.moved_per_s, 3),
        "waiting": job.waiting,
        "last_error": job.last_error,
    }


# ---- jobs


@route("GET", "/api/tasks", Right.MANAGEMENT, "Jobs that run, and the last one of every queue; the newest first")
async def tasks(request: Request) -> list[Raw]:
    jobs = [job for job in request.services.reprocessor.jobs() if sees_vhost(request.who, job.vhost)]
    return await shown(jobs, _shown)


@route("GET", "/api/tasks/{task}", Right.MANAGEMENT, "One job and its progress", answers={200: TASK})
def task(request: Request) -> dict[str, Any]:
    return _shown(_job(request))


@route("DELETE", "/api/tasks/{task}", Right.MANAGEMENT, "Cancel a job; or take one that is over off the list")
async def cancel(request: Request) -> Answer:
    job = _job(request)
    vhost = request.services.broker.vhosts.get(job.vhost)
    if vhost is not None:
        request.requester(vhost).access.check_queue(READ, job.queue)
    if not request.services.reprocessor.cancel(job.id):
        await request.durably(lambda: request.services.reprocessor.forget(job.id))
    return DONE


def _job(request: Request) -> JobView:
    job = request.services.reprocessor.job(request.path["task"])
    if not sees_vhost(request.who, job.vhost):
        raise ReplayNotFound(f"there is no job {job.id}")
    return job


# ---- where dead letters are


@route(
    "GET", "/api/dead-letters", Right.MANAGEMENT, "Queues with dead letters, by the queue they died in and the reason"
)
@route("GET", "/api/dead-letters/{vhost}", Right.MANAGEMENT, "The same for one virtual host", scope=Scope.SEE)
async def dead_letters(request: Request) -> Any:
    """Of queues that the caller may read: what is told of them stands in their messages."""
    return await request.services.dead_letters.survey([request.requester(vhost) for vhost in meant_vhosts(request)])
