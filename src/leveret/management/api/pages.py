"""The user interface: its first page, and the files that page names."""

from __future__ import annotations

from leveret.management.http.errors import not_found
from leveret.management.http.pages import CONTENT_SECURITY_POLICY, IMMUTABLE, INDEX, PageFile
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Login, route


@route(
    "GET", "/", Login.NOT_REQUIRED, "The user interface", answers={200: "text/html", 304: None, 404: "application/json"}
)
def get_index(request: Request) -> Answer:
    return _answer(request, _existing(request, INDEX), "no-cache")


@route(
    "GET",
    "/assets/{file}",
    Login.NOT_REQUIRED,
    "A script, style or picture of the user interface",
    answers={200: "*/*", 304: None},
)
def get_asset(request: Request) -> Answer:
    if request.path["file"] == INDEX:
        raise not_found()
    return _answer(request, _existing(request, request.path["file"]), IMMUTABLE)


def _existing(request: Request, name: str) -> PageFile:
    found = request.services.pages.get(name)
    if found is None:
        raise not_found()
    return found


def _answer(request: Request, file: PageFile, caching: str) -> Answer:
    headers = {
        "Cache-Control": caching,
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "ETag": file.etag,
        "Vary": "Accept-Encoding",
    }
    if file.etag in (known.strip() for known in request.headers.get("if-none-match", "").split(",")):
        return Answer(304, None, headers)
    accepted = [coding.partition(";")[0].strip() for coding in request.headers.get("accept-encoding", "").split(",")]
    if file.compressed is not None and "gzip" in accepted:
        headers["Content-Encoding"] = "gzip"
        return Answer(200, file.compressed, headers, file.content_type)
    return Answer(200, file.body, headers, file.content_type)
