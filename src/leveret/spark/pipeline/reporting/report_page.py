"""The report as one HTML page that needs nothing else: no script, no font, no address. Made from figures alone.

What a table holds came with messages: every text is escaped, and the page forbids itself to run or fetch anything."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any, NamedTuple

from leveret.spark.pipeline.reporting import plots
from leveret.spark.pipeline.reporting.plots import Mark, Series
from leveret.spark.pipeline.reporting.report_style import STYLE
from leveret.spark.pipeline.reporting.report_words import NOTHING, milliseconds, per, size

__all__ = ["Figures", "render"]

REASON_COLOURS = {"rejected": "--red", "expired": "--amber", "maxlen": "--blue", "delivery_limit": "--violet"}
KEY_COLOURS = ("--blue", "--teal", "--amber", "--violet", "--green", "--rose")
TITLE = "What went through the broker"
OTHERS, OTHERS_COLOUR = "others", "--grey"


class Figures(NamedTuple):
    """What the page shows. A part that is None was never written; one that is empty has nothing in it."""

    lake: str
    made_at: datetime
    start: datetime | None
    end: datetime | None
    step: timedelta
    # Messages by moment and key; octets, p50, p95 and p99 by moment.
    times: list[datetime]
    keys: dict[str, list[float]] | None
    octets: list[float]
    latencies: dict[str, list[float | None]]
    # All of it, for the tiles.
    messages: int
    latency_all: dict[str, float | None]
    top_keys: list[tuple[str, str, int]] | None
    tenants: list[tuple[str, int, int]]
    death_times: list[datetime]
    deaths: dict[str, list[float]] | None
    death_queues: list[tuple[str, int, int]]
    clusters: list[dict[str, Any]] | None
    alerts: list[dict[str, Any]] | None
    quarantined: int | None


def render(figures: Figures) -> str:
    parts = [
        _head(figures),
        _tiles(figures),
        _traffic(figures),
        _latency(figures),
        '<div class="pair">' + _top_keys(figures) + _tenants(figures) + "</div>",
        _deaths(figures),
        '<div class="pair">' + _death_queues(figures) + _alerts(figures) + "</div>",
        _clusters(figures),
        f"<footer>Made by <code>leveret pipeline report</code> from <code>{escape(figures.lake)}</code>."
        " All times are UTC.</footer>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{TITLE}</title><style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _head(figures: Figures) -> str:
    if figures.start is None or figures.end is None:
        span = "nothing yet"
    elif figures.start.date() == (figures.end - timedelta(seconds=1)).date():
        is_whole = figures.end - figures.start > timedelta(hours=23)
        until = "24:00" if figures.end.hour == figures.end.minute == 0 else f"{figures.end:%H:%M}"
        span = f"{figures.start:%A, %d %B %Y}" + ("" if is_whole else f", {figures.start:%H:%M} to {until}")
    else:
        span = f"{figures.start:%d %b %Y %H:%M} to {figures.end:%d %b %Y %H:%M}"
    made = f"made {figures.made_at:%d %b %Y, %H:%M}"
    return f"<header><h1>{TITLE}</h1><p>{span}<span>{made}</span></p></header>"


def _tiles(figures: Figures) -> str:
    minutes = figures.step.total_seconds() / 60
    sums = [sum(values) for values in zip(*figures.keys.values(), strict=True)] if figures.keys else []
    peak = max(range(len(sums)), key=sums.__getitem__, default=None)
    letters = sum(sum(values) for values in (figures.deaths or {}).values())
    p50, p99 = figures.latency_all.get("p50"), figures.latency_all.get("p99")
    alerts = None if figures.alerts is None else len(figures.alerts)
    share = f"{letters / figures.messages:.1%} of messages" if figures.messages else ""
    tiles = [
        ("messages", plots.number(figures.messages), f"{size(sum(figures.octets))} of bodies", ""),
        ("latency p50", milliseconds(p50), "publisher to broker", ""),
        ("latency p99", milliseconds(p99), "1 in 100 is slower", ""),
        ("dead letters", plots.number(letters), share, "bad" if letters else ""),
        ("quarantined", _or_nothing(figures.quarantined), "bad bodies", "warn" if figures.quarantined else ""),
        ("alerts", _or_nothing(alerts), "letters grew fast" if alerts else "", "bad" if alerts else ""),
    ]
    if peak is not None:
        tiles.insert(1, ("busiest", f"{plots.number(sums[peak] / minutes)}/min", f"at {figures.times[peak]:%H:%M}", ""))
    shown = [
        f'<div class="tile {kind}"><h2>{name}</h2><b>{escape(value)}</b><small>{escape(note)}</small></div>'
        for name, value, note, kind in tiles
    ]
    return f'<div class="tiles">{"".join(shown)}</div>'


def _or_nothing(count: int | None) -> str:
    return NOTHING if count is None else plots.number(count)


def _traffic(figures: Figures) -> str:
    title = f"Messages {per(figures.step)}, by routing key"
    if not figures.keys:
        return _empty(title, "There is no traffic in the lake yet.", "leveret pipeline analytics --pattern '.*' --once")
    names = iter(KEY_COLOURS)
    series = [
        Series(key, values, OTHERS_COLOUR if key == OTHERS else next(names)) for key, values in figures.keys.items()
    ]
    drawn = plots.columns_over_time(figures.times, figures.step, series)
    octets = plots.columns_over_time(
        figures.times, figures.step, [Series("bytes", figures.octets, "--blue")], show=size, height=130
    )
    return _card(title, plots.legend(series) + drawn) + _card(f"Bytes {per(figures.step)}", octets)


def _latency(figures: Figures) -> str:
    title = "Latency, publisher to broker"
    if not any(value is not None for values in figures.latencies.values() for value in values):
        note = "Messages say when they were published in the header x-published-at-ms, or in their timestamp."
        return _empty(title, f"No latencies are known. {note}", "")
    colours = {"p99": "--line3", "p95": "--line2", "p50": "--line1"}
    series = [Series(name, figures.latencies[name], colour) for name, colour in colours.items()]
    return _card(
        title, plots.legend(series) + plots.lines_over_time(figures.times, figures.step, series, show=milliseconds)
    )


def _top_keys(figures: Figures) -> str:
    if not figures.top_keys:
        return _empty("Busiest routing keys", "Nothing yet.", "leveret pipeline analytics --pattern '.*' --once")
    rows = [
        (key or "(empty)", float(count), f"{key} by exchange {exchange or '(default)'}: {count:,} messages")
        for exchange, key, count in figures.top_keys
    ]
    return _card("Busiest routing keys", plots.bars(rows, colour="--blue"))


def _tenants(figures: Figures) -> str:
    if not figures.tenants:
        return _empty("Tenants", "No message has a tenant: publishers say it in the header x-tenant.", "")
    rows = [
        (name, float(count), f"{name}: {count:,} messages, {size(octets)}") for name, count, octets in figures.tenants
    ]
    return _card("Tenants", plots.bars(rows, colour="--teal"))


def _deaths(figures: Figures) -> str:
    title = f"Dead letters {per(figures.step)}, by reason"
    if figures.deaths is None:
        return _empty(
            title, "Dead letters were not looked at yet.", "leveret pipeline deadletters --stream dead-letters --once"
        )
    if not figures.deaths:
        return _empty(title, "No message died. That is as it should be.", "")
    series = [
        Series(reason, values, REASON_COLOURS.get(reason, OTHERS_COLOUR)) for reason, values in figures.deaths.items()
    ]
    marks = [
        Mark(alert["at"], f"alert at {alert['at']:%H:%M}: {alert['letters']:,} {alert['reason']} in {alert['queue']}")
        for alert in figures.alerts or []
    ]
    return _card(
        title, plots.legend(series) + plots.columns_over_time(figures.death_times, figures.step, series, marks=marks)
    )


def _death_queues(figures: Figures) -> str:
    title = "Where messages die"
    if not figures.death_queues:
        return _empty(title, "No dead letters.", "")
    rows = [
        (queue, float(letters), f"{queue}: {letters:,} letters, {repeated:,} of them again")
        for queue, letters, repeated in figures.death_queues
    ]
    return _card(title, plots.bars(rows, colour="--red"))


def _alerts(figures: Figures) -> str:
    if figures.alerts is None:
        return _empty(
            "Alerts",
            "Dead letters were not looked at yet.",
            "leveret pipeline deadletters --stream dead-letters --once",
        )
    if not figures.alerts:
        return _empty("Alerts", "Dead letters never grew faster than the threshold.", "")
    rows = [
        (
            f"{a['at']:%d %b %H:%M}",
            a["queue"],
            a["reason"],
            f"{a['letters']:,}",
            f"{a['before']:,}",
            f"{a['growth']:.1f} times",
        )
        for a in figures.alerts
    ]
    return _card("Alerts", _table(("at", "queue", "reason", "letters", "before", "growth"), rows, "lllrrr"))


def _clusters(figures: Figures) -> str:
    title = "Failures that look alike"
    if figures.clusters is None:
        return _empty(
            title, "Dead letters were not looked at yet.", "leveret pipeline deadletters --stream dead-letters --once"
        )
    if not figures.clusters:
        return _empty(title, "No failures.", "")
    rows = [
        (
            f"{cluster['letters']:,}",
            cluster["reason"],
            cluster["queue"],
            cluster["error"] or NOTHING,
            (cluster["shape"] or NOTHING).replace(",", ", "),
            f"{cluster['first_seen']:%d %b %H:%M}",
            f"{cluster['last_seen']:%d %b %H:%M}",
            cluster["example_message_id"] or NOTHING,
        )
        for cluster in figures.clusters
    ]
    names = ("letters", "reason", "queue", "error", "shape of the body", "first", "last", "for example")
    return _card(title, _table(names, rows, "rllttlll"))


def _card(title: str, inner: str) -> str:
    return f"<section><h2>{escape(title)}</h2><div class=scroll>{inner}</div></section>"


def _empty(title: str, said: str, command: str) -> str:
    what = f"<p><code>{escape(command)}</code></p>" if command else ""
    return f"<section class=empty><h2>{escape(title)}</h2><p>{escape(said)}</p>{what}</section>"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], kinds: str) -> str:
    """`kinds` has a letter for each column: l and r for left and right, t for long text."""
    head = "".join(f'<th class="{kind}">{escape(name)}</th>' for name, kind in zip(names, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell(str(value), kind) for value, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: str, kind: str) -> str:
    colour = REASON_COLOURS.get(value)
    dot = f'<i style="background:var({colour})"></i>' if colour else ""
    title = f' title="{escape(value)}"' if kind == "t" else ""
    return f'<td class="{kind}"{title}>{dot}{escape(value)}</td>'
