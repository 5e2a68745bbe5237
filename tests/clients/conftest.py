"""Clients in other languages, run by `make test-clients` alone: they need compilers and minutes.

Each test is run with Leveret and, where it is installed, with RabbitMQ as the control. A client whose tools are missing
is skipped, and the summary at the end says so."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.brokers import KINDS, Broker, running_broker
from tests.clients.programs import CLIENTS, Program, ToolMissing

# Elsewhere nothing of this folder is collected.
WANTED = os.environ.get("LEVERET_CLIENTS", "") not in ("", "0")
collect_ignore_glob = [] if WANTED else ["test_*.py"]

_built: dict[str, Program | Exception] = {}


@pytest.fixture(scope="session", params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Program:
    """The program of the client that the test names; built once."""
    key = request.param
    if key not in _built:
        try:
            _built[key] = Program(CLIENTS[key], CLIENTS[key].build())
        except (ToolMissing, AssertionError) as error:
            _built[key] = error
    made = _built[key]
    if isinstance(made, ToolMissing):
        pytest.skip(str(made))
    if isinstance(made, Exception):
        raise made
    return made


def pytest_itemcollected(item: pytest.Item) -> None:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if "program" in parameters:
        item.user_properties += [("client", parameters["program"]), ("broker", parameters.get("broker", ""))]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    reasons: dict[tuple[str, str], str] = {}
    for outcome in ("passed", "failed", "error", "skipped", "xfailed"):
        for report in terminalreporter.stats.get(outcome, []):
            properties = dict(report.user_properties)
            if "client" not in properties:
                continue
            place = properties["client"], properties["broker"]
            counts[place][outcome] += 1
            if outcome == "skipped":
                reasons[place] = report.longrepr[2].removeprefix("Skipped: ").splitlines()[0]
            elif outcome == "xfailed":
                reasons[place] = report.wasxfail.removeprefix("reason: ")
    if not counts:
        return
    terminalreporter.section("clients")
    for (client, kind), outcomes in sorted(counts.items()):
        words = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        reason = f" ({reasons[client, kind]})" if (client, kind) in reasons else ""
        library = CLIENTS[client]
        title = f"{library.library} {library.version} ({library.language})"
        terminalreporter.write_line(f"{title:32} {kind:9} {words}{reason}")
