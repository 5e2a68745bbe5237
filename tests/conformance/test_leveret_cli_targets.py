"""Where `leveret` finds a broker, and what it costs to start: sockets, addresses, contexts, completion, modules."""

import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.testing import Broker
from tests.conformance.command_line import ROOT, CommandLine, leaves
from tests.conformance.server_process import free_port
from tests.http_client import Api


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """The path of a socket is short, and that of a test's directory is not."""
    directory = Path(tempfile.mkdtemp(prefix="lev-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def broker(home: Path) -> Iterator[Broker]:
    """Its socket is where a broker without settings would have it."""
    (home / "leveret").mkdir()
    with Broker({"listen.socket": str(home / "leveret" / "leveret.sock"), "auth.failures_max": 1000}) as broker:
        yield broker


def test_the_socket_is_found_and_asks_for_no_password(broker: Broker, home: Path) -> None:
    leveret = CommandLine(home)
    assert leveret("status", "-o", "json").json["node"].startswith("leveret@")
    # As root, or as the broker's own user, one may everything.
    assert leveret("users", "list", "-o", "json").json[0]["name"] == "guest"
    assert leveret.control("list_users").lines == ["Listing users ...", "user\ttags", "guest\t[administrator]"]
    assert leveret.process("check", "running") == leveret("check", "running")


def test_a_socket_by_its_path(broker: Broker, home: Path, tmp_path: Path) -> None:
    path = str(home / "leveret" / "leveret.sock")
    assert CommandLine(tmp_path)("check", "running", "--socket", path).out == "ok\n"
    assert CommandLine(tmp_path, environment={"LEVERET_SOCKET": path})("check", "running").out == "ok\n"
    assert CommandLine(tmp_path, environment={"LEVERET_SOCKET": path}).control("ping").status == 0
    # Whoever says who he is, is that one.
    named = CommandLine(tmp_path, ["--socket", path, "-u", "guest"], {"LEVERET_PASSWORD": "wrong"})
    assert named.run("queues", "list").status == 77


def test_addresses_and_passwords(broker: Broker, tmp_path: Path) -> None:
    api = Api(broker)
    api.put("/users/ann", {"password": "p:s/ö", "tags": "management"})
    kept = tmp_path / "password"
    kept.write_text("p:s/ö\n", "utf-8")
    leveret = CommandLine(tmp_path, ["--url", broker.management_url, "--user", "ann"])
    assert leveret.run("api", "whoami").status == 77
    assert leveret("api", "whoami", "--password-file", str(kept)).json["name"] == "ann"
    leveret.environment["LEVERET_PASSWORD"] = "p:s/ö"
    assert leveret("api", "whoami").json["name"] == "ann"
    inside = broker.management_url.replace("://", "://ann:p%3As%2F%C3%B6@") + "/api/"
    assert CommandLine(tmp_path, environment={"LEVERET_URL": inside})("api", "whoami").json["name"] == "ann"
    assert CommandLine(tmp_path, environment={"LEVERET_URL": inside}).control("list_vhosts").status == 0
    refused = leveret.run("users", "list")
    assert refused.status == 77
    assert refused.errors.startswith("leveret: not allowed: ")
    assert leveret.control("list_users").status == 77


@pytest.mark.parametrize("place", ["--url http://127.0.0.1:{port}", "--socket /none/leveret.sock"])
def test_no_broker(tmp_path: Path, place: str) -> None:
    leveret = CommandLine(tmp_path, place.format(port=free_port()).split(" "))
    ended = leveret.run("queues", "list")
    assert (ended.status, ended.out) == (69, "")
    assert ended.errors.startswith("leveret: cannot reach a broker at ")
    assert leveret.process("queues", "list") == ended
    assert leveret.control("list_queues").status == 69
    # Only a second: a probe with patience says so in the end.
    assert leveret.run("check", "running", "--wait", "0.3").status == 69


@pytest.mark.parametrize("url", ["ftp://there", "there:15672", "http://"])
def test_no_address(tmp_path: Path, url: str) -> None:
    ended = CommandLine(tmp_path).run("queues", "list", "--url", url)
    assert ended.status == 1
    assert "use http://host:15672" in ended.errors


def test_a_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    ended = CommandLine(tmp_path).run("queues", "list", "--url", f"http://ann:secret@127.0.0.1:{free_port()}")
    assert "secret" not in ended.errors


# ---- contexts


@pytest.mark.parametrize("name", ["production", "with a space", 'quo"te', "水🐇", "del\x7f", "a.b"])
def test_contexts(broker: Broker, tmp_path: Path, name: str) -> None:
    leveret = CommandLine(tmp_path)
    address = broker.management_url.replace("://", "://guest:guest@")
    leveret("context", "add", name, "--url", address, "--vhost", "/")
    leveret("context", "add", "other", "--socket", "/none.sock", "--no-use")
    file = tmp_path / "leveret" / "contexts.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = {row["name"]: row for row in leveret("context", "list", "-o", "json").json}
    assert found[name] == {"current": True, "name": name, "place": broker.management_url, "user": "", "vhost": "/"}
    assert leveret("check", "running").out == "ok\n"
    assert leveret.run("check", "running", "-c", "other").status == 69
    leveret("context", "use", "other")
    assert leveret.run("check", "running").status == 69
    assert leveret("check", "running", "-c", name).out == "ok\n"
    leveret("context", "remove", "other")
    assert leveret.run("context", "use", "other").status == 1
    assert leveret.run("context", "remove", "other").status == 1
    assert leveret.run("check", "running", "-c", "other").status == 1
    leveret("context", "remove", name)
    assert leveret("context", "list", "-o", "json").json == []


def test_a_context_needs_one_place(tmp_path: Path) -> None:
    leveret = CommandLine(tmp_path)
    assert leveret.run("context", "add", "none").status == 2
    assert leveret.run("context", "add", "both", "--url", "http://a", "--socket", "/b").status == 2


def test_a_broken_file_of_contexts_is_told(tmp_path: Path) -> None:
    (tmp_path / "leveret").mkdir()
    (tmp_path / "leveret" / "contexts.toml").write_text("nonsense")
    ended = CommandLine(tmp_path).run("queues", "list")
    assert ended.status == 1
    assert "contexts.toml" in ended.errors


# ---- help, completion, start


def test_every_command_has_help(tmp_path: Path) -> None:
    from leveret.node.cli import main

    for leaf in leaves(main):
        ended = CommandLine(tmp_path).run(*leaf, "--help")
        assert ended.status == 0
        assert ended.lines[0].startswith(f"Usage: main {' '.join(leaf)}")


@pytest.mark.parametrize(("shell", "sign"), [("bash", "complete -o nosort"), ("zsh", "#compdef"), ("fish", "complete")])
def test_completion_scripts(tmp_path: Path, shell: str, sign: str) -> None:
    script = CommandLine(tmp_path)("completions", shell).out
    assert sign in script
    assert "_LEVERET_COMPLETE" in script
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [(["que"], "queues"), (["queues", "dec"], "declare"), (["queues", "list", "--col"], "--columns")],
)
def test_bash_completes(tmp_path: Path, words: list[str], offered: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is missing")
    program = tmp_path / "leveret"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}/src:$PYTHONPATH" exec "{sys.executable}" -m leveret "$@"\n')
    program.chmod(0o755)
    script = f"""
        source <(leveret completions bash)
        COMP_WORDS=(leveret {" ".join(words)})
        COMP_CWORD={len(words)}
        _leveret_completion leveret
        echo "${{COMPREPLY[@]}}"
    """
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        [bash, "-c", script], env={**path, "HOME": str(tmp_path)}, text=True, capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (f"{offered}\n", "")


def test_small_commands_load_little(tmp_path: Path) -> None:
    """What takes long to import is for the server, or for tables that somebody sees."""
    code = """
import sys
from leveret.node.cli import main
try:
    main(sys.argv[1:], prog_name="leveret")
except SystemExit:
    pass
print(" ".join(sys.modules), file=sys.stderr)
"""
    port = str(free_port())
    for words in (["queues", "list", "--help"], ["queues", "list", "--url", f"http://127.0.0.1:{port}"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], text=True, capture_output=True, check=False, cwd=ROOT
        )
        loaded = done.stderr.splitlines()[-1].split(" ")
        assert "leveret.cli.queues" in loaded
        rooms = {name.split(".")[1] for name in loaded if name.startswith("leveret.")}
        assert rooms <= {"cli", "node"}
        assert [name for name in loaded if name.startswith("leveret.node.")] == ["leveret.node.cli"]
        assert not {"aiohttp", "asyncio", "rich", "uvloop", "msgspec", "structlog"} & set(loaded)
