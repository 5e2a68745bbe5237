"""`leveret cluster`: a cluster is made, a node joins it over the network, and faults are one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from leveret.cluster.members.credentials import Files, load_credentials
from leveret.cluster.members.token import parse_token
from leveret.node.cli import main
from tests.conformance.server_process import free_port


def run(*arguments: object, data: Path, typed: str = "") -> Result:
    words = ["cluster", *map(str, arguments), "--data-dir", str(data)]
    return CliRunner().invoke(main, words, prog_name="leveret", input=typed)


def made(data: Path) -> None:
    result = run("init", "--name", "farm", "--node-name", "hare@one", "--address", "127.0.0.1:7001", data=data)
    assert result.exit_code == 0, result.output


def test_init_and_token(tmp_path: Path) -> None:
    made(tmp_path)
    identity = load_credentials(Files.of(tmp_path)).identity
    assert (identity.cluster_name, identity.node_name, identity.address) == ("farm", "hare@one", "127.0.0.1:7001")
    again = run("init", data=tmp_path)
    assert again.exit_code == 1 and "already" in again.output
    result = run("token", "--hours", 2, data=tmp_path)
    line = result.stdout.strip()
    token = parse_token(line)
    assert "\n" not in line and str(token.address) == "127.0.0.1:7001"
    assert str(parse_token(run("token", "--address", "other:1", data=tmp_path).stdout).address) == "other:1"
    assert run("token", "--revoke", data=tmp_path).output == "revoked 2\n"
    assert "now ends at" in run("renew", data=tmp_path).output


def test_faults_are_one_line(tmp_path: Path) -> None:
    for words in (["token"], ["renew"], ["join", "no-token"], ["init", "--address", "a b"], ["token", "--wait", "x:0"]):
        result = run(*words, data=tmp_path)
        assert result.exit_code == 1 and result.output.startswith("Error: "), result.output
        assert len(result.output.splitlines()) == 1 and "Traceback" not in result.output
    made(tmp_path)
    line = run("token", "--address", "127.0.0.1:1", data=tmp_path).stdout
    result = run("join", "-", data=tmp_path / "new", typed=line)
    assert result.exit_code == 1 and "cannot ask 127.0.0.1:1" in result.output and line.strip() not in result.output


def test_nodes_join_the_one_that_waits(tmp_path: Path) -> None:
    made(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    words = ["--data-dir", tmp_path, "--address", address, "--uses", "2", "--wait", address]
    waiting = subprocess.Popen(
        [sys.executable, "-m", "leveret", "cluster", "token", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert waiting.stdout is not None and waiting.stderr is not None
        line = waiting.stdout.readline()
        assert "for 2 nodes, until" in waiting.stderr.readline()
        assert f"waiting at {address}" in waiting.stderr.readline()
        joined(tmp_path / "two", 2, line)
        # A token that another command makes meanwhile is known at once.
        joined(tmp_path / "three", 3, run("token", "--address", address, data=tmp_path).stdout)
        assert waiting.wait(60) == 0
        told = waiting.stderr.read()
        assert "node 2 at 127.0.0.1:7002 has joined" in told and "node 3 at 127.0.0.1:7003 has joined" in told
    finally:
        waiting.kill()
        waiting.communicate()


def joined(data: Path, node: int, line: str) -> None:
    own = f"127.0.0.1:{7000 + node}"
    result = run("join", "-", "--node-name", f"hare@{node}", "--address", own, data=data, typed=line)
    assert result.exit_code == 0, result.output
    assert f"this is node {node}, 'hare@{node}', of the cluster 'farm'" in result.output
    assert load_credentials(Files.of(data)).identity.seeds[0] == "127.0.0.1:7001"
    assert line.strip() not in result.output


def test_the_group_lists_its_commands() -> None:
    result = CliRunner().invoke(main, ["cluster", "--help"])
    assert all(word in result.output for word in ("init", "token", "join", "renew", "status"))
