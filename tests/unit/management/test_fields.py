"""Bodies of requests, as people and old tools write them."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.management.http.errors import HttpError
from leveret.management.http.fields import Fields


def refused(call: Any) -> Any:
    with pytest.raises(HttpError) as error:
        call()
    assert error.value.status == 400
    return error.value.reason


@pytest.mark.parametrize("value", [True, "true", "1", 1, "True", "yes"])
def test_many_ways_to_say_yes(value: Any) -> None:
    assert Fields({"a": value}).flag("a")


@pytest.mark.parametrize("value", [False, "false", "0", 0, "", "no"])
def test_many_ways_to_say_no(value: Any) -> None:
    assert not Fields({"a": value}).flag("a", True)


@pytest.mark.parametrize("value", ["banana", 2, None, [], {}])
def test_what_is_neither(value: Any) -> None:
    assert refused(lambda: Fields({"a": value}).flag("a"))[0] == "not_boolean"


def test_numbers() -> None:
    fields = Fields({"a": 5, "b": "6", "c": True, "d": "x", "e": 2**70, "f": "9" * 30, "g": 1.5})
    assert (fields.integer("a"), fields.integer("b"), fields.integer("z", 7)) == (5, 6, 7)
    for name in "cdefg":
        refused(lambda name=name: fields.integer(name))
    assert refused(lambda: fields.integer("a", within=range(5))) == "a is 5; it must be from 0 to 4"
    refused(lambda: fields.integer("z"))


def test_texts() -> None:
    fields = Fields({"a": "x, y,,z ", "b": ["x"], "c": [5], "d": "\ud800"})
    assert (fields.texts("a"), fields.texts("b")) == (["x", "y", "z"], ["x"])
    for name in ("c", "d", "none"):
        refused(lambda name=name: fields.texts(name))
    assert fields.text("b2", "default") == "default"
    assert fields.optional_text("none") is None
    refused(lambda: fields.text("b"))
    refused(lambda: fields.text("d"))


def test_what_is_missing_is_told_in_rabbitmqs_words() -> None:
    assert refused(lambda: Fields({"b": 1}).need("a", "b", "c")) == "[{key_missing,a},{key_missing,c}]"


def test_bodies_that_are_no_object() -> None:
    assert Fields(None).values == {}
    assert refused(lambda: Fields([])) == "not_json"
    assert "doubly-JSON-encoded" in refused(lambda: Fields("{}"))


def test_tables() -> None:
    assert Fields({"a": []}).table("a") == {}
    assert Fields({"a": {"x": 1}}).table("a") == {"x": 1}
    assert refused(lambda: Fields({"a": {"x": None}}).table("a")).startswith("a: x is null")


def test_a_password_of_the_wrong_kind_is_not_sent_back() -> None:
    assert "canary" not in refused(lambda: Fields({"password": ["canary"]}).text("password"))
