"""The text that Prometheus reads: families, samples, labels and numbers, in its own format and in OpenMetrics.

Knows nothing of the broker. The two formats differ in how a counter's family is called, in one type's name, and in
that OpenMetrics says where it ends."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from leveret.core.codec.names import name_octets

Kind = Literal["counter", "gauge", "histogram"]
Number = int | float
Labels = Sequence[tuple[str, str]]

PLAIN_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OPENMETRICS_END: Final = "# EOF\n"

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(slots=True)
class Family:
    """One metric: what it is called and means, and its samples as (what follows the name, value)."""

    name: str
    kind: Kind
    help: str
    samples: list[tuple[str, Number]] = field(default_factory=list)

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), self.name
        assert self.name.endswith("_total") == (self.kind == "counter"), self.name

    def add(self, value: Number, labels: Labels = ()) -> Family:
        self.samples.append((labels_text(labels), value))
        return self

    def add_histogram(
        self, bounds: Iterable[float], counts: Sequence[int], total: Number, labels: Labels = ()
    ) -> Family:
        """`counts` has one number for each bound, not yet summed up, and one for what is above the last."""
        assert self.kind == "histogram"
        below = 0
        for bound, count in zip((*bounds, math.inf), counts, strict=True):
            below += count
            self.samples.append(("_bucket" + labels_text((*labels, ("le", bound_text(bound)))), below))
        self.samples.append(("_sum" + labels_text(labels), total))
        self.samples.append(("_count" + labels_text(labels), below))
        return self


def head(name: str, kind: Kind, text: str, openmetrics: bool) -> str:
    """The lines before a family's samples."""
    if openmetrics and kind == "counter":
        name = name.removesuffix("_total")
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def family_text(family: Family, openmetrics: bool = False) -> str:
    name = family.name
    lines = [f"{name}{rest} {number_text(value)}\n" for rest, value in family.samples]
    return head(name, family.kind, family.help, openmetrics) + "".join(lines)


def labels_text(labels: Labels) -> str:
    """With its braces; nothing at all if there are none."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}"


def escaped(value: str) -> str:
    """A label's value may be anything; names of clients are, and some are no UTF-8: those octets are spelled out."""
    if not value.isascii():
        value = name_octets(value).decode("utf-8", "backslashreplace")
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number_text(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def bound_text(bound: float) -> str:
    """A bucket's upper bound just as RabbitMQ and Prometheus' own clients write it, because dashboards compare the
    text: 100.0, 1e+06, +Inf."""
    if bound == math.inf:
        return "+Inf"
    if bound >= 1e6:
        whole, _, rest = repr(float(bound)).partition(".")
        digits = (whole + rest).rstrip("0")
        return f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e+{len(whole) - 1:02d}"
    return repr(float(bound))


def accepted(header: str) -> dict[str, float]:
    """The weights of an Accept or Accept-Encoding header, by what they are for."""
    weights: dict[str, float] = {}
    for part in header.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    weight = float(value)
                except ValueError:
                    weight = 0.0
        # A scraper lists several versions of one format.
        weights[name] = max(weight, weights.get(name, 0.0))
    return weights


def wants_openmetrics(accept: str) -> bool:
    """Whether it is preferred to plain text: scrapers list both."""
    weights = accepted(accept)
    openmetrics = weights.get("application/openmetrics-text", 0.0)
    return openmetrics > 0.0 and openmetrics >= max(weights.get(kind, 0.0) for kind in ("text/plain", "text/*", "*/*"))


def wants_gzip(accept_encoding: str) -> bool:
    weights = accepted(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0.0
