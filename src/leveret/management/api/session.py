"""Logins of browsers, and what the caller may do."""

from __future__ import annotations

from typing import Any

from leveret.auth.access import CONFIGURE, READ, WRITE, Access, Right, has, sees_vhost
from leveret.auth.identity import CatalogUser, Identity
from leveret.errors import LoginRefused
from leveret.management.http.bodies import ERROR, FLAG, SESSION_BODY, TEXT, TEXTS, described
from leveret.management.http.errors import HttpError, bad_request, not_authorised, not_found
from leveret.management.http.fields import Fields
from leveret.management.http.request import DEFAULT_EXCHANGE, Answer, Request
from leveret.management.http.route import Login, Parameter, Route, route
from leveret.management.http.sessions import REQUEST_HEADER, cookie_name
from leveret.runtime.log import get_logger

log = get_logger(__name__)

SESSION = described(
    ("name", "tags", "ends_in_s", "may"), name=TEXT, tags=TEXTS, ends_in_s={"type": ["number", "null"]}, may=TEXTS
)
CHECKED = described(
    ("user", "vhost", "name", "enter", "configure", "write", "read"),
    user=TEXT,
    vhost=TEXT,
    name=TEXT,
    enter=FLAG,
    configure=FLAG,
    write=FLAG,
    read=FLAG,
    topic_write=FLAG,
    topic_read=FLAG,
)


@route(
    "POST",
    "/api/session",
    Login.NOT_REQUIRED,
    "Log in with a name and a password, or a token; the session comes as a cookie. Takes the header X-Requested-With",
    accepts=SESSION_BODY,
    answers={200: SESSION, 401: ERROR},
    private=True,
    harmless=True,
)
async def log_in(request: Request) -> Answer:
    """Not in the audit log, as no other login: otherwise callers without a password could fill it."""
    _refuse_forms(request)
    fields = Fields(request.body)
    logins, host = request.services.broker.logins, request.peer_host
    token = fields.optional_text("token")
    user = "" if token is not None else fields.text("username")
    try:
        if token is not None:
            request.who = await logins.authenticate_token(token, host, "http")
        else:
            password = fields.text("password").encode("utf-8", "surrogateescape")
            request.who = await logins.authenticate(user, password, host, "http")
    except LoginRefused as error:
        log.warning("login refused", user=user[:255], peer=host, mechanism="http session", reason=error.reason)
        raise HttpError(401, "not_authorized", "Login failed") from None
    began = request.services.sessions.begin(request.who)
    return Answer(
        200, _described(request, request.services.sessions.session_s), {"Set-Cookie": _cookie(request, began)}
    )


@route("GET", "/api/session", Login.USER, "Who the caller is, and which requests the caller's tags allow", private=True)
def get_session(request: Request) -> dict[str, Any]:
    session = (
        None
        if request.session_token is None
        else request.services.sessions.find(request.session_token, request.peer_host)
    )
    return _described(request, None if session is None else request.services.sessions.ends_in_s(session))


@route("DELETE", "/api/session", Login.USER, "Log out: the session ends", harmless=True)
def log_out(request: Request) -> Answer:
    if request.session_token is None:
        raise bad_request("this request has no session")
    request.services.sessions.end(request.session_token)
    return Answer(204, headers={"Set-Cookie": f"{_cookie(request, '')}; Max-Age=0"})


def _refuse_forms(request: Request) -> None:
    """A page of another site could else log its visitors in under a name of its own."""
    if REQUEST_HEADER.lower() not in request.headers:
        raise HttpError(403, "forbidden", f"a login takes the header {REQUEST_HEADER}")


def _cookie(request: Request, token: str) -> str:
    secure = "; Secure" if request.secure else ""
    return f"{cookie_name(request.port)}={token}; Path=/api; HttpOnly; SameSite=Strict{secure}"


def _described(request: Request, ends_in_s: float | None) -> dict[str, Any]:
    return {
        "name": request.who.name,
        "tags": list(request.who.tags),
        "ends_in_s": ends_in_s,
        "may": [f"{one.method} {one.path}" for one in request.services.table.routes if _allows(request.who, one)],
    }


def _allows(who: Identity, one: Route) -> bool:
    return has(who, one.right) if isinstance(one.right, Right) else True


# ---- permissions of a user on an object


@route(
    "GET",
    "/api/access-check",
    Right.MANAGEMENT,
    "Whether the caller, or for administrators another user, may configure, write and read a queue or an exchange",
    query=(
        Parameter("vhost", "The virtual host; / if none is named."),
        Parameter("name", "The name of a queue or of an exchange."),
        Parameter("user", "Another user than the caller; takes the tag administrator."),
        Parameter("exchange", "With routing_key: a topic exchange whose topic permissions are looked at, too."),
        Parameter("routing_key", "Whether messages with this key may be published there, and queues bound with it."),
    ),
    answers={200: CHECKED, 404: ERROR},
)
def check_access(request: Request) -> dict[str, Any]:
    vhost, name = request.query.get("vhost", "/"), request.query.get("name", "")
    user = request.query.get("user", request.who.name)
    # Whether there is a virtual host is told to those who see it.
    if vhost not in request.services.broker.vhosts or not sees_vhost(request.who, vhost):
        raise not_found()
    identity = request.who if user == request.who.name else _other(request, user)
    access = Access(identity, vhost)
    enters = identity.may_enter(vhost)
    found = {"user": user, "vhost": vhost, "name": name, "enter": enters}
    found |= {kind: enters and access.allows_queue(kind, name or DEFAULT_EXCHANGE) for kind in (CONFIGURE, WRITE, READ)}
    exchange = request.services.broker.catalog.topologies[vhost].exchanges.get(request.query.get("exchange", ""))
    if exchange is not None and "routing_key" in request.query:
        checked = access.has_topics(exchange)
        for kind in (WRITE, READ):
            key = request.query["routing_key"]
            found[f"topic_{kind}"] = not checked or identity.allows_topic(kind, vhost, exchange.name, key)
    return found


def _other(request: Request, user: str) -> Identity:
    if not has(request.who, Right.ADMINISTRATOR):
        raise not_authorised("Not administrator user")
    if user not in request.services.broker.catalog.users:
        raise not_found()
    return CatalogUser(request.services.broker.catalog, user)
