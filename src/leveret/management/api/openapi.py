"""The description of the API, for people's tools."""

from __future__ import annotations

from leveret.management.http.json import encode
from leveret.management.http.openapi import document
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Login, route


@route("GET", "/api/openapi.json", Login.NOT_REQUIRED, "This description, as OpenAPI 3.1")
def get_openapi(request: Request) -> Answer:
    """Made once: it is public, and may be requested often."""
    table = request.services.table
    if table.described is None:
        table.described = encode(document(table))
    return Answer(body=table.described)
