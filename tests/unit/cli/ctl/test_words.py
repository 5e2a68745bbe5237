"""How rabbitmqctl's command lines are read."""

import pytest

from leveret.cli.ctl.words import Misuse, parse


def test_options_stand_anywhere() -> None:
    words = parse(["-p", "v", "list_queues", "--formatter=json", "name", "-q", "messages"])
    assert (words.verb, words.rest, words.vhost) == ("list_queues", ["name", "messages"], "v")
    assert words.has("quiet") and words.options["formatter"] == "json"


def test_behind_two_dashes_is_no_option() -> None:
    assert parse(["set_policy", "--", "-p", "--quiet"]).rest == ["-p", "--quiet"]


def test_what_is_no_known_option_is_a_word() -> None:
    assert parse(["authenticate_user", "ann", "--secret=1"]).rest == ["ann", "--secret=1"]


def test_how_many_words() -> None:
    words = parse(["add_user", "ann"])
    assert words.take("username", "password", optional=1) == ["ann", ""]
    for names in ((), ("a", "b"), ("a", "b", "c")):
        with pytest.raises(Misuse):
            words.take(*names)


def test_numbers() -> None:
    words = parse(["x", "--timeout", "5", "--priority", "high"])
    assert (words.number("timeout", 1), words.number("limit", 7)) == (5, 7)
    with pytest.raises(Misuse):
        words.number("priority", 0)


@pytest.mark.parametrize("words", [[], ["-q"], ["list_queues", "-p"]])
def test_what_makes_no_sense(words: list[str]) -> None:
    with pytest.raises(Misuse):
        parse(words)
