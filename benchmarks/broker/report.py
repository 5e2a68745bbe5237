"""The table: medians, ratios to RabbitMQ in the same run, and which goals are reached. Pure text from figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.broker.case import Case, Figures, Goal, Stage

SUBJECT = "leveret"
REFERENCE = "rabbitmq"
QUORUM = "rabbitmq-quorum"
NOISE_NOTED = 0.1

Results = Mapping[str, Mapping[str, Sequence[Figures]]]  # case -> broker -> one entry a repeat

COLUMNS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("msg/s", lambda figures: _cell(figures, "rate", "{:,.0f}")),
    ("CPU us", lambda figures: _cell(figures, "cpu_us", "{:.2f}")),
    (
        "p50/p99 us",
        lambda figures: " / ".join(filter(None, (_cell(figures, k, "{:,.0f}") for k in ("p50_us", "p99_us")))),
    ),
    ("time s", lambda figures: _cell(figures, "seconds", "{:.3f}")),
    ("memory MiB", lambda figures: _cell(figures, "memory_mib", "{:,.0f}")),
    ("KiB each", lambda figures: _cell(figures, "bytes_each", "{:,.2f}", 1 / 1024)),
    ("messages", lambda figures: _cell(figures, "messages", "{:,.0f}")),
    ("fdatasync us", lambda figures: _cell(figures, "sync_us", "{:,.0f}")),
)
# Figures that have no column: the verdict tells them.
TOLD = {
    "cost_ratio": "{:.2f}x: ",
    "plain_ratio": "{:.2f}x: ",
    "sync_ratio": "{:.2f}x: ",
    "end_ratio": "{:.2f}x: ",
    "grown_ratio": "{:.2f}x: ",
    "goal_ratio": "{:.2f}x: ",
    "one_ratio": "{:.2f}x: ",
    "max_us": "{:,.0f} us: ",
}


def _cell(figures: Figures, key: str, form: str, scale: float = 1.0) -> str:
    return form.format(figures[key] * scale) if key in figures else ""


def summary(case: Case, repeats: Sequence[Figures]) -> Figures:
    """One figure of each kind: the median of the repeats that have it, or the smallest where the case says so."""
    keys = dict.fromkeys(key for repeat in repeats for key in repeat)
    return {
        key: (min if key in case.smallest else statistics.median)(repeat[key] for repeat in repeats if key in repeat)
        for key in keys
    }


def ratio(subject: Figures, reference: Figures) -> str:
    """How Leveret compares: throughput times as high, and what it needs less of as a fraction."""
    parts = []
    if "seconds" not in subject and "p50_us" not in subject:
        parts.append(f"{subject['rate'] / reference['rate']:.1f}x rate")
    costs = {"p50_us": "p50", "p99_us": "p99", "seconds": "time", "cpu_us": "CPU", "memory_mib": "memory"}
    # What grows with the backlog compares only if both had the same.
    alike = subject.get("messages") == reference.get("messages")
    for key, word in costs.items():
        ours, theirs = subject.get(key, 0.0), reference.get(key, 0.0)
        if ours > 0 and theirs > 0 and (alike or key not in ("seconds", "memory_mib")):
            parts.append(f"1/{theirs / ours:.1f} {word}" if ours <= theirs else f"{ours / theirs:.1f}x {word}")
    return ", ".join(parts)


def ratios(subject: Figures, others: Mapping[str, Figures]) -> str:
    """To RabbitMQ's classic queues in full; to its quorum queues the first figure, which says most."""
    words = ratio(subject, others[REFERENCE]) if REFERENCE in others else ""
    quorum = ratio(subject, others[QUORUM]).split(", ")[0] if QUORUM in others else ""
    return "; ".join(filter(None, (words, quorum and f"quorum {quorum}")))


def verdict(goals: Sequence[Goal], figures: Figures) -> str:
    """Each goal with yes or no; a figure that the table has no column for is told, one not measured is a dash."""
    words = []
    for goal in goals:
        if goal.figure not in figures:
            words.append("-")
        else:
            told = TOLD.get(goal.figure, "").format(figures[goal.figure])
            words.append(told + ("yes" if goal.reached(figures) else "NO"))
    return ", ".join(words)


def rows(case: Case, by_peer: Mapping[str, Sequence[Figures]]) -> list[list[str]]:
    summaries = {peer: summary(case, repeats) for peer, repeats in by_peer.items() if repeats}
    return [row for part in case.parts() for row in _part_rows(part, summaries)]


def _part_rows(part: Stage, summaries: Mapping[str, Figures]) -> list[list[str]]:
    """One row a broker, the first with the title."""
    by_peer = {peer: part.of(figures) for peer, figures in summaries.items()}
    table: list[list[str]] = []
    for peer, figures in by_peer.items():
        noisy = "~" if figures.get("noise", 0.0) > NOISE_NOTED else ""
        subject = peer == SUBJECT
        table.append(
            [
                part.title if not table else "",
                peer + noisy,
                *(cell(figures) for _, cell in COLUMNS),
                ratios(figures, by_peer) if subject else "",
                ", ".join(goal.text for goal in part.goals) if subject else "",
                verdict(part.goals, figures) if subject or TOLD.keys() & figures.keys() else "",
            ]
        )
    return table


def render(cases: Sequence[Case], results: Results) -> str:
    """The whole table as Markdown that also reads well in a terminal."""
    header = ["case", "broker", *(name for name, _ in COLUMNS), "to RabbitMQ", "goal", "reached"]
    body = [row for case in cases if case.name in results for row in rows(case, results[case.name])]
    widths = [max(len(row[column]) for row in [header, *body]) for column in range(len(header))]
    numeric = range(2, 2 + len(COLUMNS))

    def line(row: Sequence[str]) -> str:
        cells = (
            cell.rjust(width) if column in numeric else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * (width - 1) + ":" if column in numeric else "-" * width for column, width in enumerate(widths)]
    return "\n".join(line(row) for row in [header, rule, *body])


def goals_missed(cases: Sequence[Case], results: Results) -> list[str]:
    """The goals that Leveret does not reach, in words."""
    missed = []
    for case in cases:
        repeats = results.get(case.name, {}).get(SUBJECT)
        if repeats:
            figures = summary(case, repeats)
            for part in case.parts():
                own = part.of(figures)
                missed += [f"{case.name}: {goal.text}" for goal in part.goals if not goal.reached(own)]
    return missed
