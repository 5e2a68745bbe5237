"""The container image's recipe: what can be said of it without building it. docs/deploying.md says how it was built."""

from __future__ import annotations

import re
from pathlib import Path

from leveret.cli.target import SYSTEM_SOCKET
from leveret.node.config.declaring import declarations
from leveret.node.config.network import DOORS, ListenSettings

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "deploy/container/Containerfile").read_text()
# Each stage as its instructions, a line each.
STAGES = [
    re.sub(r"\\\n\s*", "", "\n".join(line for line in stage.splitlines() if not line.startswith("#")))
    for stage in re.split(r"^(?=FROM )", TEXT, flags=re.MULTILINE)[1:]
]


def instructions(stage: str, name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", stage, flags=re.MULTILINE)


def test_the_compiler_stays_in_the_first_stage() -> None:
    build, final = STAGES
    assert "gcc" in build
    assert not re.search(r"gcc|-dev|pip\b", final)
    assert instructions(final, "COPY") == ["--from=build /opt/leveret /opt/leveret"]


def test_it_runs_as_a_user_without_rights_and_is_asked_for_its_health() -> None:
    final = STAGES[-1]
    assert instructions(final, "USER") == ["10001:10001"]
    after = final.split("USER ")[1]
    assert "RUN" not in after
    assert instructions(final, "HEALTHCHECK")[0].endswith('CMD ["leveret", "check", "ready"]')
    assert instructions(final, "ENTRYPOINT") + instructions(final, "CMD") == ['["leveret"]', '["serve"]']


def test_packages_of_python_are_pinned_with_hashes() -> None:
    installs = re.findall(r"pip (?:install|wheel) [^&\n]*", STAGES[0])
    assert len(installs) == 4, installs
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


def test_what_it_sets_exists_and_every_port_is_named() -> None:
    settings = dict(re.findall(r"(LEVERET__\w+)=(\S+)", instructions(STAGES[-1], "ENV")[0]))
    assert settings.keys() <= {declared.variable for declared in declarations().values()}
    assert settings["LEVERET__LISTEN__SOCKET"] == SYSTEM_SOCKET
    assert instructions(STAGES[-1], "VOLUME") == [settings["LEVERET__DATA_DIR"]]
    usual = {"tls_": 5671, "stream_tls_": 5551}
    ports = {str(usual.get(name) or getattr(ListenSettings(), f"{name}port")) for name in DOORS}
    assert set(instructions(STAGES[-1], "EXPOSE")[0].split()) == ports


def test_what_is_copied_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = {word.rstrip("/").split("/")[0] for line in instructions(STAGES[0], "COPY") for word in line.split()[:-1]}
    assert "*" in ignored
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)
