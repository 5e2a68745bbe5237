"""The management API over HTTPS, as tools use it: `leveret`, `leveretctl`, rabbitmqadmin and curl."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.command_line import CommandLine
from tests.conformance.rabbitmqadmin import Admin
from tests.conformance.tls_scenes import TlsScene, tls_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsScene]:
    with tls_scene(tmp_path_factory.mktemp("https"), listen__management_tls=True) as scene:
        yield scene


@pytest.fixture
def url(scene: TlsScene) -> str:
    return f"https://localhost:{scene.broker.management_port}"


def test_leveret(scene: TlsScene, url: str, tmp_path: Path) -> None:
    trusting = CommandLine(tmp_path, ["--url", url, "--ca", str(scene.authority.file)])
    assert trusting("check", "running").out == "ok\n"
    assert trusting("status", "-o", "json").json["node"].startswith("leveret@")
    ended = CommandLine(tmp_path, ["--url", url]).run("check", "running")
    assert ended.status == 69
    assert "certificate is not trusted" in ended.errors
    plain = CommandLine(tmp_path, ["--url", url.replace("https", "http")]).run("check", "running")
    assert plain.status == 69


def test_a_context_with_an_authority(scene: TlsScene, url: str, tmp_path: Path) -> None:
    line = CommandLine(tmp_path)
    line("context", "add", "safe", "--url", url, "--ca", str(scene.authority.file))
    assert line("check", "ready").out == "ok\n"
    line.environment["LEVERET_CONTEXT"] = "safe"
    assert line.control("list_vhosts").lines == ["Listing vhosts ...", "name", "/"]
    by_hand = CommandLine(tmp_path / "other", ["--url", url, "--ca", str(scene.authority.file)])
    assert by_hand.control("ping").status == 0


def test_rabbitmqadmin(scene: TlsScene, url: str, tmp_path: Path) -> None:
    options = ("--ssl", "--ssl-ca-cert-file", str(scene.authority.file), "-H", "localhost")
    admin = Admin(url, str(tmp_path), options)
    assert admin("declare", "queue", "name=secured") == "queue declared"
    assert admin.named("queues") == ["secured"]
    assert Admin(url, str(tmp_path), ("--ssl", "-k"))("list", "vhosts") != "No items"
    assert Admin(url, str(tmp_path), ("--ssl", "-H", "localhost")).run("list", "vhosts").status == 1


def test_curl(scene: TlsScene, url: str) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is missing")
    command = [curl, "-sS", "--cacert", str(scene.authority.file), "-u", "guest:guest", "--compressed"]
    done = subprocess.run([*command, f"{url}/api/overview"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    listeners = {one["protocol"] for one in json.loads(done.stdout)["listeners"]}
    assert "https" in listeners
