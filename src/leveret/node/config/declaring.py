"""How a setting is declared: its type with bounds, what it is for, and what else there is to know about it.

The sections use `said`; whoever needs all settings, such as the loader, the documentation and the schema, uses
`declarations`."""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from leveret.runtime.secret import Secret

PORT_WANTED = "a port is 0 to 65535, 0 for any free one"
PORT_OR_OFF_WANTED = f'{PORT_WANTED}, or "off"'

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
PortOrOff = Port | Literal["off"]


def said(
    description: str,
    *,
    ge: float | None = None,
    le: float | None = None,
    live: bool = False,
    flag: str = "",
    wanted: str = "",
) -> msgspec.Meta:
    """`live` settings follow a reload, the others need a restart. `flag` is the option of `leveret serve`. `wanted` is
    what a refusal says instead of the type and its bounds."""
    return msgspec.Meta(description=description, ge=ge, le=le, extra={"live": live, "flag": flag, "wanted": wanted})


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file. The docstring of each says which and what it is about."""


@dataclass(frozen=True, slots=True)
class Declaration:
    key: str
    # The annotated type, as msgspec converts to it.
    kind: Any
    default: Any
    description: str
    live: bool
    flag: str
    wanted: str

    @property
    def plain_kind(self) -> Any:
        """The type without bounds and texts."""
        return get_args(self.kind)[0] if get_origin(self.kind) is Annotated else self.kind

    @property
    def secret(self) -> bool:
        return self.plain_kind is Secret

    @property
    def is_text(self) -> bool:
        return self.plain_kind is str or (
            get_origin(self.plain_kind) is Literal and all(isinstance(part, str) for part in get_args(self.plain_kind))
        )

    @property
    def is_list(self) -> bool:
        return get_origin(self.plain_kind) is tuple

    @property
    def is_table(self) -> bool:
        return get_origin(self.plain_kind) is dict

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return "LEVERET__" + self.key.replace(".", "__").upper()

    def expected(self) -> str:
        """What would do, for refusals and the documentation."""
        text = kind_text(self.kind)
        return self.wanted or (f"use {text}" if text.startswith("one of") else f"it must be {text}")


def declared_in(section: type[Section], prefix: str = "") -> dict[str, Declaration]:
    found: dict[str, Declaration] = {}
    hints = get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        kind = hints[field.name]
        if isinstance(kind, type) and issubclass(kind, Section):
            found.update(declared_in(kind, f"{prefix}{field.name}."))
            continue
        metas = [part for part in get_args(kind)[1:] if isinstance(part, msgspec.Meta)]
        extra: dict[str, Any] = {}
        description = ""
        for meta in metas:
            extra.update(meta.extra or {})
            description = meta.description or description
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        found[prefix + field.name] = Declaration(
            prefix + field.name, kind, default, description, extra["live"], extra["flag"], extra["wanted"]
        )
    return found


@functools.cache
def declarations() -> dict[str, Declaration]:
    """Every setting by its key, such as "listen.port", in the order of declaration."""
    from leveret.node.config.settings import Settings

    return declared_in(Settings)


@functools.cache
def section_names() -> dict[str, str]:
    """Every table by its key, such as "auth.tokens", with what it is about; the top has the empty key."""
    from leveret.node.config.settings import Settings

    found: dict[str, str] = {}
    _gather_sections(Settings, "", found)
    return found


def _gather_sections(section: type[Section], key: str, found: dict[str, str]) -> None:
    found[key] = (section.__doc__ or "").partition("] ")[2] or (section.__doc__ or "")
    hints = get_type_hints(section)
    for field in msgspec.structs.fields(section):
        kind = hints[field.name]
        if isinstance(kind, type) and issubclass(kind, Section):
            _gather_sections(kind, f"{key}.{field.name}" if key else field.name, found)


# ---- types in words


def kind_text(kind: Any) -> str:
    """A type for people: 'a whole number from 1 to 65535', 'a list of texts', 'one of debug, info'."""
    low = high = None
    if get_origin(kind) is Annotated:
        kind, *metas = get_args(kind)
        for meta in metas:
            low = meta.ge if meta.ge is not None else low
            high = meta.le if meta.le is not None else high
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(kind_text(part) for part in parts)
    if origin is Literal:
        return f'"{parts[0]}"' if len(parts) == 1 else "one of " + ", ".join(str(part) for part in parts)
    if origin is tuple:
        inner = kind_text(parts[0])
        return f"a list of {inner}" if inner.startswith("one of") else "a list of texts"
    if origin is dict:
        return "a table of texts"
    if kind is bool:
        return "true or false"
    if kind in (str, Secret):
        return "text"
    number = "a whole number" if kind is int else "a number"
    return number if low is None or high is None else f"{number} from {bound_text(low)} to {bound_text(high)}"


def bound_text(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"
