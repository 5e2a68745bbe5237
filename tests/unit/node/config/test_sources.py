"""Where values come from: files and conf.d, the environment, the command line; and what is said of unknown names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leveret.errors import ConfigError
from leveret.node.config import sources
from leveret.node.config.declaring import declarations
from leveret.node.config.loading import load
from leveret.node.config.sources import configuration_files, from_environment, from_text


def refusal(config: Path | None = None, flags: dict[str, Any] | None = None, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(config, flags or {}, environment)
    return str(refused.value).splitlines()


@pytest.fixture(autouse=True)
def system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A system's configuration of the test's own, which is not there yet."""
    path = tmp_path / "etc" / "leveret.toml"
    path.parent.mkdir()
    monkeypatch.setattr(sources, "SYSTEM_FILE", path)
    return path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_the_later_source_wins(system: Path) -> None:
    def port(flags: dict[str, Any], **environment: str) -> tuple[int, str]:
        loaded = load(None, flags, environment)
        return loaded.settings.listen.port, loaded.origins["listen.port"]

    assert port({}) == (5672, "default")
    write(system, "[listen]\nport = 1\n")
    assert port({}) == (1, str(system))
    first = write(system.parent / "conf.d" / "10.toml", "[listen]\nport = 2\n")
    assert port({}) == (2, str(first))
    second = write(system.parent / "conf.d" / "20.toml", "listen.port = 3\n")
    write(system.parent / "conf.d" / "30.toml.bak", "listen.port = 4\n")
    assert port({}) == (3, str(second))
    assert port({}, LEVERET__LISTEN__PORT="5") == (5, "LEVERET__LISTEN__PORT")
    assert port({"listen.port": 6}, LEVERET__LISTEN__PORT="5") == (6, "--port")
    assert port({"listen.port": None}, LEVERET__LISTEN__PORT="5") == (5, "LEVERET__LISTEN__PORT")


def test_a_file_that_is_named_stands_for_the_systems(system: Path, tmp_path: Path) -> None:
    write(system, 'cluster_name = "system"\n')
    write(system.parent / "conf.d" / "1.toml", 'node_name = "a@b"\n')
    mine = write(tmp_path / "mine" / "leveret.toml", "[listen]\nport = 7\n")
    beside = write(tmp_path / "mine" / "conf.d" / "1.toml", "[listen]\nport = 8\n")
    settings = load(mine, {}, {}).settings
    assert (settings.cluster_name, settings.node_name, settings.listen.port) == ("leveret", "", 8)
    assert configuration_files(mine) == [mine, beside]


def test_conf_d_counts_without_the_systems_file(system: Path) -> None:
    assert configuration_files(None) == []
    part = write(system.parent / "conf.d" / "a.toml", 'log_level = "debug"\n')
    assert configuration_files(None) == [part]
    assert load(None, {}, {}).settings.log_level == "debug"


def test_every_problem_of_every_source_is_told_with_its_place(system: Path) -> None:
    write(system, '[limits]\nframe_max = 12\n[listen]\nprot = 1\nhost = ""\n')
    part = write(system.parent / "conf.d" / "1.toml", "[storage]\nsync = 1\n")
    broken = write(system.parent / "conf.d" / "2.toml", "sync")
    problems = refusal(None, {"listen.port": 70000}, LEVERET__LIMITS__HEARTBEAT_S="often", LEVERET__LIMITS__CHANELS="1")
    assert f"{broken} is not valid TOML: Expected '=' after a key in a key/value pair (at end of document)" in problems
    problems = [problem for problem in problems if "valid TOML" not in problem]
    assert problems == [
        f"{system}: listen.prot is no setting; do you mean listen.port?",
        "LEVERET__LIMITS__CHANELS is no setting; do you mean LEVERET__LIMITS__CHANNELS_MAX?",
        f"{system}: limits.frame_max is 12; it must be a whole number from 8192 to 16777216",
        f"{part}: storage.sync is 1; it must be true or false",
        "LEVERET__LIMITS__HEARTBEAT_S: limits.heartbeat_s is 'often'; it must be a whole number from 0 to 65535",
        '--port: listen.port is 70000; a port is 0 to 65535, 0 for any free one, or "off"',
        f'{system}: listen.host is empty; say "0.0.0.0" or "::" to listen on every address',
    ]


# ---- the environment


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("listen.port", "5673", 5673),
        ("listen.port", " 5673 ", 5673),
        ("listen.tls_port", "off", "off"),
        ("listen.tls_port", '"off"', "off"),
        ("limits.handshake_deadline_s", "2", 2),
        ("limits.handshake_deadline_s", "2.5", 2.5),
        ("storage.sync", "false", False),
        ("cluster_name", "123", "123"),
        ("cluster_name", "true", "true"),
        ("cluster_name", "[a]", "[a]"),
        ("cluster_name", '"a\\tb"', "a\tb"),
        ("cluster_name", "x\ny = 1", "x\ny = 1"),
        ("cluster_name", "1\ny = 1", "1\ny = 1"),
        ("cluster_name", "", ""),
        ("tls.verify", "required", "required"),
        ("tls.version_min", "1.3", "1.3"),
        ("auth.default_password", '"quoted"', '"quoted"'),
        ("auth.default_password", "12345", "12345"),
        ("auth.loopback_users", "ann, bob,,", ["ann", "bob"]),
        ("auth.loopback_users", '["ann", "b,b"]', ["ann", "b,b"]),
        ("auth.loopback_users", "", []),
        ("auth.tokens.keys", '{ one = "1.pem" }', {"one": "1.pem"}),
    ],
)
def test_a_variable_is_toml_or_text_as_the_setting_needs_it(key: str, text: str, value: Any) -> None:
    found = from_text(declarations()[key], text)
    assert (found, type(found)) == (value, type(value))


def test_nested_sections_are_further_underscores() -> None:
    environment = {
        "LEVERET__AUTH__TOKENS__LEEWAY_S": "1.5",
        "leveret__listen__port": "1",
        "LEVERET__listen__PORT": "2",
        "LEVERET_PURE": "1",
        "LEVERET_CONFORMANCE_TARGET": "rabbitmq",
        "LEVERETS": "many",
    }
    problems: list[str] = []
    given = {item.key: item.value for item in from_environment(environment, problems)}
    assert given == {"auth.tokens.leeway_s": 1.5, "listen.port": 2}
    assert problems == []


def test_a_key_of_a_table_is_taken_as_it_is_written() -> None:
    environment = {
        "LEVERET__AUTH__TOKENS__KEYS__Key-1": "/one.pem",
        "LEVERET__AUTH__TOKENS__KEYS__two__X": "/two.pem",
    }
    assert load(None, {}, environment).settings.auth.tokens.keys == {"Key-1": "/one.pem", "two__X": "/two.pem"}
    assert refusal(LEVERET__AUTH__TOKENS__KEYS__="x") == [
        "LEVERET__AUTH__TOKENS__KEYS__ is no setting; do you mean LEVERET__AUTH__TOKENS__KEYS?"
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LEVERET__LISTEN__PROT", "; do you mean LEVERET__LISTEN__PORT?"),
        ("LEVERET__PORT", "; do you mean LEVERET__LISTEN__PORT?"),
        ("LEVERET__LISTEN", ""),
        ("LEVERET__", ""),
        ("LEVERET__LISTEN__PORT__X", "; do you mean LEVERET__LISTEN__PORT?"),
        ("LEVERET__WXYZ", ""),
    ],
)
def test_an_unknown_variable_is_refused_by_its_name(name: str, meant: str) -> None:
    assert refusal(**{name: "1"}) == [f"{name} is no setting{meant}"]


# ---- secrets


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_secret_comes_from_a_file_without_its_last_line_end(tmp_path: Path, ending: str) -> None:
    (tmp_path / "password").write_bytes(f" pass\nword {ending}".encode())
    loaded = load(None, {}, {"LEVERET__AUTH__DEFAULT_PASSWORD_FILE": str(tmp_path / "password")})
    assert loaded.settings.auth.default_password.reveal() == " pass\nword "
    assert loaded.origins["auth.default_password"] == "LEVERET__AUTH__DEFAULT_PASSWORD_FILE"


def test_a_later_secret_wins_over_an_earlier_file_and_the_reverse(system: Path, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("filed\n")

    def password(text: str, **environment: str) -> str:
        write(system, text)
        return load(None, {}, environment).settings.auth.default_password.reveal()

    by_file = f'[auth]\ndefault_password_file = "{tmp_path}/password"\n'
    assert password(by_file) == "filed"
    assert password(by_file, LEVERET__AUTH__DEFAULT_PASSWORD="said") == "said"
    plain = '[auth]\ndefault_password = "written"\n'
    assert password(plain, LEVERET__AUTH__DEFAULT_PASSWORD_FILE=f"{tmp_path}/password") == "filed"


def test_a_secret_comes_from_a_command(system: Path, tmp_path: Path) -> None:
    def password(text: str, **environment: str) -> str:
        write(system, text)
        return load(None, {}, environment).settings.auth.default_password.reveal()

    assert password('[auth]\ndefault_password_command = ["/bin/echo", "hush  hush"]\n') == "hush  hush"
    words = {"LEVERET__AUTH__DEFAULT_PASSWORD_COMMAND": "/bin/echo 'two words'"}
    assert password("", **words) == "two words"
    assert password("", LEVERET__AUTH__DEFAULT_PASSWORD_COMMAND='["/bin/echo", "a list"]') == "a list"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ('["/bin/sh", "-c", "echo hush; exit 7"]', "'/bin/sh' ended with status 7"),
        ('["/no/such/tool", "hush"]', "'/no/such/tool' cannot be run: No such file or directory"),
        ('["/bin/true"]', "is what '/bin/true' prints, which is empty"),
        ("[]", "must be a command and its arguments"),
        ("5", "must be a command and its arguments"),
        ('["/bin/echo", 5]', "must be a command and its arguments"),
        ('"/bin/echo \'hush"', "must be a command and its arguments"),
    ],
)
def test_a_command_that_is_no_good_is_refused(system: Path, command: str, text: str) -> None:
    write(system, f"[tls]\nkey_password_command = {command}\n")
    (problem,) = refusal()
    assert text in problem and "tls.key_password_command" in problem
    assert "hush" not in problem


def test_a_file_that_is_swapped_as_kubernetes_does_is_read_anew(tmp_path: Path) -> None:
    """The file is a link into ..data, which is a link to a directory, and that link is replaced."""
    for day, text in (("..monday", "first"), ("..tuesday", "second")):
        (tmp_path / day).mkdir()
        (tmp_path / day / "password").write_text(text)
    (tmp_path / "..data").symlink_to("..monday")
    (tmp_path / "password").symlink_to("..data/password")
    variables = {"LEVERET__AUTH__DEFAULT_PASSWORD_FILE": str(tmp_path / "password")}
    assert load(None, {}, variables).settings.auth.default_password.reveal() == "first"
    (tmp_path / "..data_tmp").symlink_to("..tuesday")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert load(None, {}, variables).settings.auth.default_password.reveal() == "second"


def test_a_secret_and_its_file_in_one_place_are_refused(system: Path) -> None:
    write(system, '[tls]\nkey_password = "hush"\nkey_password_file = "/dev/null"\n')
    problems = refusal()
    assert problems[0] == f"{system}: tls.key_password and tls.key_password_file are both there; keep one"
    assert "hush" not in "".join(problems)


def test_a_secrets_file_that_is_no_good_is_refused(tmp_path: Path) -> None:
    def refused(path: object) -> str:
        (problem,) = refusal(LEVERET__TLS__KEY_PASSWORD_FILE=str(path))
        return problem.removeprefix("LEVERET__TLS__KEY_PASSWORD_FILE: tls.key_password_file is ")

    (tmp_path / "empty").write_text("\n")
    (tmp_path / "large").write_bytes(bytes(65537))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert refused(tmp_path / "none") == f"'{tmp_path}/none', which cannot be read: No such file or directory"
    assert refused(tmp_path) == f"'{tmp_path}', which cannot be read: Is a directory"
    assert refused("nul\0") == "'nul\\x00', which cannot be read: embedded null byte"
    assert refused(tmp_path / "empty") == f"'{tmp_path}/empty', which is empty"
    assert refused(tmp_path / "large") == f"'{tmp_path}/large', which has more than 65536 bytes"
    assert refused(tmp_path / "binary") == f"'{tmp_path}/binary', which is not UTF-8"
    assert refused("") == "''; it must be the path of a file"


def test_a_relative_path_is_looked_up_among_the_credentials_of_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "credentials" / "password", "given by systemd")
    monkeypatch.chdir(tmp_path)
    variables = {"LEVERET__AUTH__DEFAULT_PASSWORD_FILE": "password", "CREDENTIALS_DIRECTORY": f"{tmp_path}/credentials"}

    def password() -> str:
        return load(None, {}, variables).settings.auth.default_password.reveal()

    write(tmp_path / "password", "here")
    assert password() == "given by systemd"
    (tmp_path / "credentials" / "password").unlink()
    assert password() == "here"
    variables["LEVERET__AUTH__DEFAULT_PASSWORD_FILE"] = str(tmp_path / "password")
    write(tmp_path / "credentials" / "password", "given by systemd")
    assert password() == "here"


@pytest.mark.parametrize(
    "text",
    [
        "[tls]\nkey_password = 3141592653",
        '[tls]\nkey_password = ["3141592653"]',
        "[tls]\nkey_password = 3141592653.0",
        '[tls]\nkey_pasword = "3141592653"',
        'tls = "3141592653"',
        '[auth]\ndefault_password = { a = "3141592653" }',
    ],
)
def test_a_refusal_shows_no_secret(system: Path, text: str) -> None:
    write(system, text)
    problems = "".join(refusal())
    assert "31415" not in problems
    assert str(system) in problems


# ---- ports


def test_ports_follow_that_of_amqp_unless_they_are_given(system: Path) -> None:
    loaded = load(None, {"listen.port": 5700}, {"LEVERET__LISTEN__METRICS_PORT": "9"})
    listen = loaded.settings.listen
    assert (listen.stream_port, listen.management_port, listen.metrics_port) == (5580, 15700, 9)
    assert loaded.origins["listen.management_port"] == "follows listen.port"
    assert load(None, {"listen.port": 60000}, {}).settings.listen.management_port == 0
    assert load(None, {"listen.port": 5672}, {}).settings.listen.management_port == 15672
