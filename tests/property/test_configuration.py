"""Settings, whatever they are, come back as they were: through a file, through variables, through `config show`."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from hypothesis import given
from hypothesis import strategies as st

from leveret.errors import ConfigError
from leveret.node.config.declaring import Declaration, declarations
from leveret.node.config.loading import Loaded, load, load_settings, values_of
from leveret.node.config.network import FOLLOWING_PORTS
from leveret.node.config.sources import variable_name
from leveret.node.config.writing import as_toml, toml_value

# Texts that a variable can hold: no zero octet, nothing that is no UTF-8.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
# Those whose values must suit each other, or a form; they have tests of their own.
NEEDY = ("tls.", "listen.", "dead_letters.", "node_name", "alarms.memory_watermark", "auth.tokens.", "auth.default_")


def values(kind: Any) -> st.SearchStrategy[Any]:
    low = high = None
    if get_origin(kind) is Annotated:
        kind, *metas = get_args(kind)
        for meta in metas:
            low, high = (meta.ge if meta.ge is not None else low), (meta.le if meta.le is not None else high)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is tuple:
        return st.lists(values(get_args(kind)[0]), min_size=1, max_size=3).map(tuple)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(int(low or 0), int(high or 2**31))
    if kind is float:
        return st.floats(low, high)
    assert kind is str, kind
    return TEXTS.filter(bool)


PLAIN = {key: each for key, each in declarations().items() if not key.startswith(NEEDY)}
CHOSEN = st.dictionaries(st.sampled_from(sorted(PLAIN)), st.none()).flatmap(
    lambda keys: st.fixed_dictionaries({key: values(PLAIN[key].kind) for key in keys})
)


def written(declaration: Declaration, value: Any) -> str:
    return f"{declaration.key} = {toml_value(value)}\n"


@given(CHOSEN)
def test_a_file_gives_what_was_written(chosen: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "leveret.toml"
        path.write_text("".join(written(PLAIN[key], value) for key, value in chosen.items()), "utf-8", newline="\n")
        loaded = load(path, {}, {})
        got = values_of(loaded.settings)
        assert {key: got[key] for key in chosen} == chosen
        assert {key for key, place in loaded.origins.items() if place == str(path)} == set(chosen)


@given(CHOSEN)
def test_variables_give_what_was_written(chosen: dict[str, Any]) -> None:
    """Also those with quotes, commas and line ends, written as TOML has them."""
    got = values_of(load(None, {}, {variable_name(key): toml_value(value) for key, value in chosen.items()}).settings)
    assert {key: got[key] for key in chosen} == chosen


@given(TEXTS)
def test_a_secret_in_a_variable_is_taken_to_the_letter_and_never_shown(text: str) -> None:
    if not text:
        return
    loaded = load(None, {}, {"LEVERET__AUTH__DEFAULT_PASSWORD": text, "LEVERET__AUTH__DEFAULT_USER": "ann"})
    assert loaded.settings.auth.default_password.reveal() == text
    shown = as_toml(loaded, sources=True)
    assert shown == as_toml(
        load(None, {}, {"LEVERET__AUTH__DEFAULT_PASSWORD": "x", "LEVERET__AUTH__DEFAULT_USER": "ann"}), True
    )


@given(CHOSEN)
def test_what_is_shown_means_the_same(chosen: dict[str, Any]) -> None:
    settings = load_settings(None, {"data_dir": "/d", "node_name": "a@b", "listen.socket": "off", **chosen})
    text = as_toml(Loaded(settings, {}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "leveret.toml"
        path.write_text(text, "utf-8", newline="\n")
        assert load_settings(path, {}) == settings


@given(TEXTS)
def test_texts_are_written_as_toml_reads_them(text: str) -> None:
    assert tomllib.loads(f"text = {toml_value(text)}") == {"text": text}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(declarations())) | st.text(), ANYTHING, max_size=4))
def test_whatever_is_given_is_taken_or_refused_in_lines_that_name_it(chosen: dict[str, Any]) -> None:
    try:
        got = values_of(load_settings(None, chosen))
    except ConfigError as error:
        problems = str(error).splitlines()
        assert problems
        assert all(line.strip() for line in problems)
    else:
        assert set(chosen) <= set(got)
        assert set(FOLLOWING_PORTS) <= set(got)


@given(st.dictionaries(st.text().map(lambda text: "LEVERET__" + text), st.text(), max_size=3))
def test_whatever_the_environment_has_is_taken_or_refused_by_name(variables: dict[str, str]) -> None:
    try:
        load(None, {}, variables)
    except ConfigError as error:
        assert "LEVERET__" in str(error)
