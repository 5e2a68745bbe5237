"""The OpenAPI document, made of the table of routes: what is not in the table is not in the document, and the other way
round."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from leveret import __version__
from leveret.management.http.route import Login, Route, Scope, Size, Table

ERROR_SCHEMA = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {
        "error": {"type": "string", "description": "A word for programs."},
        "reason": {"description": "What was wrong, for people; mostly a text."},
    },
}
REF_TEMPLATE = "#/components/schemas/{name}"
PARAMETER_DESCRIPTIONS = {
    "vhost": "A virtual host, percent-encoded: / is %2F.",
    "queue": "The name of a queue, percent-encoded.",
    "exchange": "The name of an exchange, percent-encoded; amq.default for the default exchange.",
    "user": "The name of a user.",
    "name": "The name of it, percent-encoded.",
}


def document(table: Table) -> dict[str, Any]:
    """The whole of it, as OpenAPI 3.1."""
    kinds = [kind for one in table.routes for kind in one.answers.values() if _is_schema(kind)]
    kinds += [one.body for one in table.routes if one.accepts is None and _is_schema(one.body)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REF_TEMPLATE)
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in table.routes:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Leveret management API",
            "version": __version__,
            "description": "RabbitMQ's management API, and more. Names in paths are percent-encoded.",
        },
        "servers": [{"url": "/"}],
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
            "schemas": {"Error": ERROR_SCHEMA, **components},
            "responses": {"Refused": _answer("What was wrong.", {"$ref": "#/components/schemas/Error"})},
        },
    }


def _is_schema(kind: Any) -> bool:
    return kind is not None and kind is not Any and not isinstance(kind, str | dict)


def _operation(one: Route, by_kind: dict[int, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": one.summary,
        "operationId": _operation_id(one),
        "tags": [_tag(one.path)],
        "description": _rights(one),
        "parameters": [_path_parameter(name) for name in one.parameters]
        + [
            {
                "name": query.name,
                "in": "query",
                "required": False,
                "description": query.description,
                "schema": query.schema,
            }
            for query in one.query
        ],
        "responses": {str(status): _answer_of(kind, by_kind) for status, kind in sorted(one.answers.items())},
    }
    if one.method not in ("GET", "DELETE") or one.body is not None:
        schema = by_kind.get(id(one.body), {}) if one.accepts is None else one.accepts
        made["requestBody"] = {"required": False, "content": {"application/json": {"schema": schema}}}
    if one.right is Login.NOT_REQUIRED:
        made["security"] = []
    else:
        made["responses"].setdefault("401", {"$ref": "#/components/responses/Refused"})
    for status in _refusals(one):
        made["responses"].setdefault(status, {"$ref": "#/components/responses/Refused"})
    return made


def _refusals(one: Route) -> list[str]:
    found = ["400"]
    if one.parameters:
        found.append("404")
    if one.method not in ("GET", "HEAD"):
        found += ["403", "413", "415"]
    return found


def _operation_id(one: Route) -> str:
    words = [word for word in re.split(r"[^a-zA-Z0-9]+", one.path) if word]
    return "_".join([one.method.lower(), *words])


def _tag(path: str) -> str:
    parts = [part for part in path.split("/") if part and not part.startswith("{")]
    return parts[1] if len(parts) > 1 and parts[0] == "api" else parts[0] if parts else "ui"


def _rights(one: Route) -> str:
    who = "No login required" if one.right is Login.NOT_REQUIRED else f"For: {one.right.name.lower()}"
    if "vhost" in one.parameters and one.scope is Scope.ENTER:
        who += ", with a permission in the virtual host"
    if "vhost" in one.parameters and one.scope is Scope.GOVERN:
        who += ", with a permission in the virtual host unless administrator"
    size = "" if one.size is Size.SMALL else " The body may be large."
    return f"{who}.{size}"


def _path_parameter(name: str) -> dict[str, Any]:
    described = PARAMETER_DESCRIPTIONS.get(name, "Percent-encoded.")
    return {"name": name, "in": "path", "required": True, "description": described, "schema": {"type": "string"}}


def _answer_of(kind: Any, by_kind: dict[int, Any]) -> dict[str, Any]:
    if kind is None:
        return {"description": "Done, without a body."}
    if isinstance(kind, str):
        return {"description": "As it is.", "content": {kind: {"schema": {"type": "string"}}}}
    return _answer("What was asked for.", kind if isinstance(kind, dict) else by_kind.get(id(kind), {}))


def _answer(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
