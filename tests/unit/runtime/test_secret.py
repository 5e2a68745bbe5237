"""Secrets: nothing shows them but `reveal`."""

from __future__ import annotations

import copy
import pickle
import traceback

import msgspec
import pytest

from leveret.runtime.secret import MASK, Secret

TEXT = "correct horse"


def test_only_reveal_gives_the_text() -> None:
    secret = Secret(TEXT)
    assert secret.reveal() == TEXT
    for shown in (
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r}",
        f"{[secret]}",
        str({1: secret}),
    ):
        assert TEXT not in shown
        assert MASK in shown


def test_an_empty_one_is_seen_to_be_empty() -> None:
    assert not Secret()
    assert Secret("x")
    assert (str(Secret("")), repr(Secret(""))) == ("", "Secret('')")


def test_equal_texts_are_equal_secrets_and_no_secret_equals_its_text() -> None:
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("ä") == Secret("ä")
    assert Secret("a") != "a"


def test_it_does_not_get_into_files_or_answers_by_accident() -> None:
    secret = Secret(TEXT)
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        copy.deepcopy(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode({"password": secret})


def test_a_traceback_with_locals_does_not_show_it() -> None:
    secret = Secret(TEXT)
    try:
        raise ValueError(secret)
    except ValueError as error:
        told = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "secret = Secret('******')" in told


def test_it_cannot_be_written_to() -> None:
    with pytest.raises(AttributeError):
        Secret("a").text = "b"  # type: ignore[attr-defined]
