"""`leveret config`: check, show and schema."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest
import trustme
from click.testing import CliRunner

from leveret.node.cli import main
from leveret.node.config import sources
from leveret.node.config.declaring import declarations
from leveret.node.config.loading import load_settings
from leveret.node.config.settings import Settings
from tests.unit.node.process import environment


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "SYSTEM_FILE", tmp_path / "etc" / "leveret.toml")


def run(*arguments: str, **variables: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["config", *arguments], prog_name="leveret", env=variables)
    return result.exit_code, result.output


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "leveret.toml"
    path.write_text(text, "utf-8")
    return str(path)


# ---- check


def test_a_good_configuration_is_named_and_exit_0(tmp_path: Path) -> None:
    path = written(tmp_path, "[listen]\nport = 0\n")
    assert run("check", "--config", path) == (0, f"the configuration is good: {path}\n")
    assert run("check") == (0, "the configuration is good: no file, so defaults and the environment\n")


def test_a_password_that_everybody_can_read_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, '[auth]\ndefault_password = "secret"\n')
    Path(path).chmod(0o644)
    code, output = run("check", "--config", path)
    assert code == 0
    assert f"warning: {path} has auth.default_password, and everybody on this machine can read it" in output
    assert "secret" not in output
    Path(path).chmod(0o640)
    assert "warning" not in run("check", "--config", path)[1]
    # Neither a file of the password's own, which is mounted in many ways, nor a setting that is no secret.
    (tmp_path / "password").write_text("secret\n")
    path = written(tmp_path, f'[auth]\ndefault_password_file = "{tmp_path / "password"}"\ndefault_user = "ann"\n')
    Path(path).chmod(0o644)
    assert "warning" not in run("check", "--config", path)[1]


def test_every_problem_is_a_line_and_exit_1(tmp_path: Path) -> None:
    path = written(tmp_path, "port = 1\n[limits]\nchannel_max = 0\n")
    code, output = run("check", "--config", path, LEVERET__LIMITS__FRAME_MAX="many")
    assert code == 1
    assert output.splitlines() == [
        f"{path}: port is no setting; do you mean listen.port?",
        f"{path}: limits.channel_max is 0; it must be a whole number from 1 to 65535",
        "LEVERET__LIMITS__FRAME_MAX: limits.frame_max is 'many'; it must be a whole number from 8192 to 16777216",
    ]


def test_files_that_the_node_would_need_are_looked_for(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f'[tls]\ncertificate = "{tmp_path}/leveret.toml"\nkey = "{tmp_path}/key.pem"\n'
        f'[definitions]\npath = "{tmp_path}/defs"\n[auth.tokens.keys]\none = "{tmp_path}/one.pem"\n',
    )
    code, output = run("check", "--config", path)
    assert code == 1
    assert output.splitlines() == [
        f"{path}: tls.key has '{tmp_path}/key.pem', which does not exist",
        f"{path}: auth.tokens.keys has '{tmp_path}/one.pem', which does not exist",
        f"{path}: definitions.path has '{tmp_path}/defs', which does not exist",
    ]


def test_certificates_and_keys_are_read_as_the_node_would(tmp_path: Path) -> None:
    authority = trustme.CA()
    one, two = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    certificate, right, wrong = (tmp_path / name for name in ("certificate.pem", "right.pem", "wrong.pem"))
    one.cert_chain_pems[0].write_to_path(certificate)
    one.private_key_pem.write_to_path(right)
    two.private_key_pem.write_to_path(wrong)
    text = f'[listen]\ntls_port = 0\n[tls]\ncertificate = "{certificate}"\nkey = "%s"\n'
    assert run("check", "--config", written(tmp_path, text % right))[0] == 0
    code, output = run("check", "--config", written(tmp_path, text % wrong))
    assert code == 1 and str(wrong) in output
    tokens = f'[auth.tokens]\nenabled = true\naudience = "a"\nkeys = {{ one = "{right}" }}\n'
    code, output = run("check", "--config", written(tmp_path, tokens))
    assert code == 1 and "auth.tokens.keys.one" in output


def test_a_file_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert run("check", "--config", str(path)) == (1, f"cannot read {path}: No such file or directory\n")
    assert run("show", "--config", str(path)) == (1, f"leveret: cannot read {path}: No such file or directory\n")


# ---- show


def test_what_is_shown_means_the_same(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'data_dir = "/d"\ncluster_name = "quote \\" back \\\\ tab \\t größe"\n[listen]\nport = 7000\ntls_port = 1\n'
        'socket = "off"\n[tls]\ncertificate = "c"\nkey = "k"\n[auth]\nloopback_users = ["a", "b"]\n'
        '[auth.tokens.keys]\n"a b" = "x"\n',
    )
    code, output = run("show", "--config", path, LEVERET__NODE_NAME="a@b")
    assert code == 0
    (tmp_path / "again.toml").write_text(output, "utf-8")
    shown = load_settings(tmp_path / "again.toml", {})
    assert shown == load_settings(Path(path), {"node_name": "a@b"})
    assert shown.cluster_name == 'quote " back \\ tab \t größe'


def test_what_is_empty_by_default_is_shown_as_what_it_comes_to() -> None:
    tree = tomllib.loads(run("show", XDG_DATA_HOME="/data")[1])
    assert tree["data_dir"] == "/data/leveret"
    assert tree["listen"]["socket"] == "/data/leveret/leveret.sock"
    assert tree["node_name"].startswith("leveret@")


def test_sources_are_comments(tmp_path: Path) -> None:
    path = written(tmp_path, "[listen]\nport = 7000\n")
    lines = run("show", "--sources", "--config", path, LEVERET__LIMITS__HEARTBEAT_S="9")[1].splitlines()
    assert f"port = 7000  # {path}" in lines
    assert "management_port = 17000  # follows listen.port" in lines
    assert "heartbeat_s = 9  # LEVERET__LIMITS__HEARTBEAT_S" in lines
    assert "frame_max = 131072  # default" in lines


def test_json_has_every_setting(tmp_path: Path) -> None:
    path = written(tmp_path, "[listen]\nport = 7000\n")
    tree = json.loads(run("show", "-o", "json", "--config", path)[1])
    for key in declarations():
        place = tree
        for name in key.split("."):
            place = place[name]
    assert tree["listen"]["port"] == 7000
    both = json.loads(run("show", "-o", "json", "--sources", "--config", path)[1])
    assert both["settings"] == tree
    assert both["sources"]["listen.port"] == path


@pytest.mark.parametrize("form", ["toml", "json"])
@pytest.mark.parametrize("how", ["file", "variable", "path"])
def test_secrets_are_never_shown(tmp_path: Path, form: str, how: str) -> None:
    canary = "canary-5f1d"
    (tmp_path / "secret").write_text(canary)
    path = written(tmp_path, f'[tls]\nkey_password = "{canary}"\n' if how == "file" else "")
    variables = {
        "file": {},
        "variable": {"LEVERET__TLS__KEY_PASSWORD": canary},
        "path": {"LEVERET__TLS__KEY_PASSWORD_FILE": str(tmp_path / "secret")},
    }[how]
    code, output = run("show", "-o", form, "--sources", "--config", path, **variables)
    assert code == 0
    assert canary not in output
    assert ("# key_password is set and not shown" if form == "toml" else '"key_password": "******"') in output


# ---- schema


def test_the_schema_takes_what_we_take_and_refuses_what_we_refuse() -> None:
    schema = json.loads(run("schema")[1])
    validator = jsonschema_rs.Draft202012Validator(schema)
    jsonschema_rs.meta.validate(schema)
    shown = tomllib.loads(run("show")[1])
    assert list(validator.iter_errors(shown)) == []
    good = {
        "tls": {"key_password_file": "x"},
        "listen": {"port": 0, "tls_port": "off"},
        "auth": {"tokens": {"keys": {}}},
    }
    assert list(validator.iter_errors(good)) == []
    for bad in (
        {"port": 1},
        {"listen": {"port": 65536}},
        {"listen": {"tls_port": "on"}},
        {"limits": {"frame_max": 1}},
        {"log_level": "loud"},
        {"auth": {"loopback_users": "guest"}},
        {"auth": {"tokens": {"algorithms": ["HS256"]}}},
    ):
        assert list(validator.iter_errors(bad)), bad


def test_the_schema_has_defaults_and_descriptions_but_no_secret() -> None:
    text = run("schema")[1]
    properties = json.loads(text)["properties"]
    assert properties["listen"]["properties"]["port"]["default"] == Settings().listen.port
    assert "default" not in properties["auth"]["properties"]["default_password"]
    assert all(part.get("description") for part in properties["auth"]["properties"].values())


# ---- start-up


@pytest.mark.parametrize("arguments", [("--help",), ("config", "show"), ("config", "check"), ("serve", "--help")])
def test_small_commands_start_without_the_broker(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom leveret.node.cli import main\n"
        f"main({list(arguments)!r}, standalone_mode=False)\n"
        "heavy = {'asyncio', 'uvloop', 'structlog', 'logging', 'ssl', 'leveret.core.codec.tables', 'leveret.broker'}\n"
        "print('heavy:', *sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, timeout=20, check=False
    )
    assert done.stderr == "heavy:\n"
