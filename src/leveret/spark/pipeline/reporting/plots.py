"""Plots as SVG within a page: no script, no library, nothing fetched. Colours are the page's variables, so that they
are right by day and by night; what a place in a plot means is said when the pointer rests there.

Pure: numbers in, text out. Every text that comes from a message is escaped here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import NamedTuple

__all__ = ["Mark", "Series", "bars", "columns_over_time", "legend", "lines_over_time", "number"]

LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 26
TICKS = 4
# Seconds between two labels of the time axis: the first that leaves room.
TIME_STEPS_S = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000)
LABEL_WIDTH = 62
Format = Callable[[float], str]


class Series(NamedTuple):
    """One value per moment; None where nothing is known. `colour` names a variable of the page."""

    name: str
    values: Sequence[float | None]
    colour: str


class Mark(NamedTuple):
    """Something that happened at a moment."""

    at: datetime
    text: str


def number(value: float) -> str:
    """As people read it: 1,234 or 12.3k or 4.5M; small ones with a digit or two."""
    size = abs(value)
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return f"{value / divisor:.1f}".removesuffix(".0") + unit
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 1 else f"{value:.2g}"


def legend(series: Sequence[Series]) -> str:
    chips = "".join(f'<span><i style="background:var({each.colour})"></i>{escape(each.name)}</span>' for each in series)
    return f'<div class="legend">{chips}</div>'


def columns_over_time(
    times: Sequence[datetime],
    step: timedelta,
    series: Sequence[Series],
    *,
    marks: Sequence[Mark] = (),
    show: Format = number,
    width: int = 1180,
    height: int = 230,
) -> str:
    """Columns upon each other, one for each stretch of time."""
    sums = [sum(each.values[at] or 0 for each in series) for at in range(len(times))]
    frame = _Frame(times, step, max(sums, default=0), width, height)
    gap = 1.5 if frame.slot > 4 else 0.0
    shapes = []
    for at, moment in enumerate(times):
        below = 0.0
        for each in series:
            value = each.values[at] or 0
            if value:
                top = frame.y(below + value)
                shapes.append(
                    f'<rect x="{frame.x(moment) + gap / 2:.1f}" y="{top:.1f}" width="{max(frame.slot - gap, 0.6):.1f}"'
                    f' height="{frame.y(below) - top:.1f}" fill="var({each.colour})"/>'
                )
                below += value
    return frame.drawn("".join(shapes), series, marks, show, sums)


def lines_over_time(
    times: Sequence[datetime],
    step: timedelta,
    series: Sequence[Series],
    *,
    marks: Sequence[Mark] = (),
    show: Format = number,
    width: int = 1180,
    height: int = 230,
) -> str:
    """One line each; a stretch without a value is a gap."""
    most = max((value for each in series for value in each.values if value is not None), default=0)
    frame = _Frame(times, step, most, width, height)
    shapes = []
    for each in series:
        for part in _unbroken(times, each.values, step):
            points = [f"{frame.x(moment) + frame.slot / 2:.1f},{frame.y(value):.1f}" for moment, value in part]
            if len(points) == 1:
                x, y = points[0].split(",")
                shapes.append(f'<circle cx="{x}" cy="{y}" r="2.2" fill="var({each.colour})"/>')
            else:
                shapes.append(f'<polyline points="{" ".join(points)}" class="line" stroke="var({each.colour})"/>')
    return frame.drawn("".join(shapes), series, marks, show, None)


def bars(rows: Sequence[tuple[str, float, str]], *, colour: str, show: Format = number, width: int = 570) -> str:
    """One bar for each (name, value, what is said about it), the longest at the top."""
    room, line = 190, 27
    most = max((value for _, value, _ in rows), default=0) or 1
    shapes = []
    for at, (name, value, said) in enumerate(rows):
        y = at * line
        length = max(2.0, value / most * (width - room - 70))
        shown = name if len(name) <= 26 else name[:25] + "…"
        shapes.append(
            f'<g class="bar"><title>{escape(said)}</title>'
            f'<rect x="0" y="{y}" width="{width}" height="{line}" class="hit"/>'
            f'<text x="{room - 10}" y="{y + 18}" text-anchor="end" class="name">{escape(shown)}</text>'
            f'<rect x="{room}" y="{y + 6}" width="{length:.1f}" height="{line - 12}" rx="3" fill="var({colour})"/>'
            f'<text x="{room + length + 7:.1f}" y="{y + 18}" class="tick">{escape(show(value))}</text></g>'
        )
    return f'<svg viewBox="0 0 {width} {max(1, len(rows)) * line}" role="img" class="bars">{"".join(shapes)}</svg>'


def _unbroken(
    times: Sequence[datetime], values: Sequence[float | None], step: timedelta
) -> list[list[tuple[datetime, float]]]:
    parts: list[list[tuple[datetime, float]]] = []
    for moment, value in zip(times, values, strict=True):
        if value is None:
            continue
        if parts and moment - parts[-1][-1][0] <= step:
            parts[-1].append((moment, value))
        else:
            parts.append([(moment, value)])
    return parts


class _Frame:
    """Axes, and where a moment and a value are between them."""

    def __init__(self, times: Sequence[datetime], step: timedelta, most: float, width: int, height: int) -> None:
        self.times, self.step, self.width, self.height = times, step, width, height
        self.start, self.end = times[0], times[-1] + step
        self.tick = _nice(most / TICKS if most > 0 else 0.25)
        self.top = self.tick * max(1, math.ceil(most / self.tick - 1e-9))
        self.slot = (width - LEFT - RIGHT) * (step / (self.end - self.start))

    def x(self, moment: datetime) -> float:
        return LEFT + (self.width - LEFT - RIGHT) * ((moment - self.start) / (self.end - self.start))

    def y(self, value: float) -> float:
        return self.height - BOTTOM - (self.height - TOP - BOTTOM) * value / self.top

    def drawn(
        self, shapes: str, series: Sequence[Series], marks: Sequence[Mark], show: Format, sums: Sequence[float] | None
    ) -> str:
        parts = [self._value_axis(show), shapes, self._time_axis()]
        for at, moment in enumerate(self.times):
            lines = [f"{each.name}: {show(value)}" for each in series if (value := each.values[at])]
            if lines:
                whole = [f"all: {show(sums[at])}"] if sums is not None and len(lines) > 1 else []
                said = "\n".join([_when(moment, self.step), *whole, *reversed(lines)])
                parts.append(
                    f'<rect x="{self.x(moment):.1f}" y="{TOP}" width="{max(self.slot, 1):.1f}"'
                    f' height="{self.height - TOP - BOTTOM}" class="hit"><title>{escape(said)}</title></rect>'
                )
        for mark in marks:
            if self.start <= mark.at < self.end:
                x = self.x(mark.at)
                parts.append(
                    f'<g class="mark"><title>{escape(mark.text)}</title>'
                    f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{self.height - BOTTOM}"/>'
                    f'<path d="M{x - 6:.1f} 1 h12 l-6 11 z"/></g>'
                )
        return f'<svg viewBox="0 0 {self.width} {self.height}" role="img">{"".join(parts)}</svg>'

    def _value_axis(self, show: Format) -> str:
        parts = []
        for at in range(round(self.top / self.tick) + 1):
            y, kind, text = self.y(at * self.tick), "grid" if at else "axis", escape(show(at * self.tick))
            parts.append(
                f'<line x1="{LEFT}" x2="{self.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="{kind}"/>'
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="tick">{text}</text>'
            )
        return "".join(parts)

    def _time_axis(self) -> str:
        span_s = (self.end - self.start).total_seconds()
        labels = (self.width - LEFT - RIGHT) / LABEL_WIDTH
        step_s = next((one for one in TIME_STEPS_S if span_s / one <= labels), TIME_STEPS_S[-1])
        moment_s = math.ceil(self.start.timestamp() / step_s) * step_s
        parts = []
        while moment_s <= self.end.timestamp():
            moment = datetime.fromtimestamp(moment_s, UTC)
            is_day = moment.hour == moment.minute == 0
            text = moment.strftime("%d %b" if is_day else "%H:%M")
            x = self.x(moment)
            anchor = "end" if x > self.width - RIGHT - 12 else "middle"
            kind = "tick day" if is_day else "tick"
            parts.append(f'<text x="{x:.1f}" y="{self.height - 8}" text-anchor="{anchor}" class="{kind}">{text}</text>')
            moment_s += step_s
        return "".join(parts)


def _nice(step: float) -> float:
    """1, 2 or 5 times a power of ten, not less."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= step * (1 - 1e-9))


def _when(moment: datetime, step: timedelta) -> str:
    end = moment + step
    if step >= timedelta(days=1):
        return f"{moment:%d %b %Y}"
    return f"{moment:%d %b %H:%M}" + ("" if step <= timedelta(minutes=1) else f" to {end:%H:%M}")
