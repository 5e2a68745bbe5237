"""What we hand out for Prometheus and Grafana: promtool finds it right, and the alerts fire when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
PROMETHEUS = ROOT / "deploy/prometheus"
DASHBOARD = ROOT / "deploy/grafana/leveret.json"


def promtool(*arguments: str) -> str:
    tool = shutil.which("promtool")
    assert tool, "promtool is missing; as root on Debian: apt-get install --no-install-recommends prometheus"
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_configuration_is_valid() -> None:
    promtool("check", "config", str(PROMETHEUS / "prometheus.yml"))


def test_the_rules_are_valid() -> None:
    promtool(
        "check", "rules", "--lint=all", "--lint-fatal", *(str(PROMETHEUS / n) for n in ("recording.yml", "alerts.yml"))
    )


def test_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", str(Path(__file__).with_name("alerts_test.yml")))


def alerts() -> dict[str, str]:
    """The text of each rule, by its name."""
    _, *rules = (PROMETHEUS / "alerts.yml").read_text().split("- alert: ")
    return {rule.split("\n", 1)[0]: rule for rule in rules}


@pytest.mark.parametrize("name", alerts())
def test_every_alert_is_explained_and_tested(name: str) -> None:
    rule = alerts()[name]
    assert name.startswith("Leveret")
    assert re.search(r"\n +severity: (critical|warning|info)\n", rule)
    assert re.findall(r"\n +(summary|description|runbook): ", rule) == ["summary", "description", "runbook"]
    assert name in Path(__file__).with_name("alerts_test.yml").read_text()
    assert name in (ROOT / "docs/monitoring.md").read_text()


# ---- the dashboard


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def test_panels_do_not_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_panels_are_explained() -> None:
    for panel in panels():
        assert panel["type"] == "row" or (panel["description"] and panel["targets"]), panel["title"]
    assert len({panel["id"] for panel in panels()}) == len(panels())


def test_every_variable_exists() -> None:
    text = DASHBOARD.read_text()
    known = {variable["name"] for variable in json.loads(text)["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?([a-z_]+)", text)) <= known
