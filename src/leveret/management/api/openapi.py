"""The description of the API, for people's tools."""

from __future__ import annotations

from typing import Any

from leveret.management.http.ask import Ask
from leveret.management.http.openapi import document
from leveret.management.http.route import Login, route


@route("GET", "/api/openapi.json", Login.NOBODY, "This description, as OpenAPI 3.1")
def get_openapi(ask: Ask) -> dict[str, Any]:
    return document(ask.services.table)
