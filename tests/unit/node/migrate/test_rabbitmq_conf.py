"""rabbitmq.conf is read as RabbitMQ reads it: these cases were tried with its own parser (cuttlefish of 3.10.8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.errors import ConfigError
from leveret.node.migrate.rabbitmq_conf import read_conf


def read(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    path = tmp_path / "rabbitmq.conf"
    path.write_bytes(text.encode())
    return [(entry.key, entry.value) for entry in read_conf(path)]


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("heartbeat = 30", "heartbeat", "30"),
        ("  heartbeat=30   # trailing", "heartbeat", "30"),
        ("default_pass = a#b c  ", "default_pass", "a"),
        ('default_user = "ann"', "default_user", '"ann"'),
        ("cluster_name = it's", "cluster_name", "it's"),
        ("a.b = x = y", "a.b", "x = y"),
        ("a = h\u00e4", "a", "h\u00e4"),
        # From 3.13 on.
        ("default_pass = 'a#b \\' c' # comment", "default_pass", "a#b ' c"),
        ("default_pass = 'a' b", "default_pass", "'a' b"),
    ],
)
def test_a_line_is_a_key_and_a_value(tmp_path: Path, line: str, key: str, value: str) -> None:
    assert read(tmp_path, line) == [(key, value)]


def test_a_guarded_dot_belongs_to_the_name(tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text("auth_oauth2.signing_keys.key\\.1 = /x.pem\n")
    assert read_conf(path)[0].parts == ("auth_oauth2", "signing_keys", "key.1")


def test_comments_and_empty_lines_are_nothing_and_places_count_them(tmp_path: Path) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_bytes(b"# one\r\n\r\n  # two\na = 1\rb = 2")
    assert [(entry.key, entry.place) for entry in read_conf(path)] == [("a", f"{path}:4"), ("b", f"{path}:5")]


def test_other_files_are_included_in_their_place(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "2.conf").write_text("b = 2\n")
    (tmp_path / "conf.d" / "1.conf").write_text("b = 1\n")
    (tmp_path / "more.conf").write_text("c = 3\n")
    text = f"a = 0\ninclude conf.d/*.conf # all\ninclude {tmp_path}/more.conf\nd = 4\n"
    assert read(tmp_path, text) == [("a", "0"), ("b", "1"), ("b", "2"), ("c", "3"), ("d", "4")]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a = 1\nb c\n", ":2: expected a key, an equals sign and a value"),
        ("a b = 1", ":1: expected a key, an equals sign and a value"),
        ("a = ", ":1: a has no value"),
        ("a = # nothing", ":1: a has no value"),
        ("include none.conf", ":1: includes none.conf, which is no file"),
        ("include rabbitmq.conf", ": it is included by itself"),
        ("[{rabbit, [{heartbeat, 3}]}].", " is in the old form of Erlang terms"),
        ("%% a comment of Erlang\n[].", " is in the old form of Erlang terms"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_place(tmp_path: Path, text: str, refusal: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path}/rabbitmq.conf{refusal}")


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_conf(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"a = \xff\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_conf(tmp_path / "binary")
