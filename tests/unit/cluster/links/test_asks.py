"""Questions and their answers: once each, bounded, and none is left waiting."""

from __future__ import annotations

import pytest

from leveret.cluster.links.asks import Asks
from leveret.errors import AskFailed


def test_each_question_gets_its_own_answer_once() -> None:
    asks, answers = Asks(2), []
    first = asks.ask(10, lambda answer: answers.append(("first", answer)))
    second = asks.ask(10, lambda answer: answers.append(("second", answer)))
    asks.answered(second, b"b")
    asks.answered(first, b"a")
    asks.answered(first, b"again")
    assert answers == [("second", b"b"), ("first", b"a")]
    assert asks.late_total == 1 and len(asks) == 0


def test_a_deadline_ends_only_what_is_due() -> None:
    asks, answers = Asks(2), []
    asks.ask(10, answers.append)
    asks.ask(20, answers.append)
    asks.expire(10)
    assert len(asks) == 1 and isinstance(answers[0], AskFailed) and "in time" in str(answers[0])


def test_what_is_open_is_bounded() -> None:
    asks = Asks(2, outstanding_max=3)
    numbers = [asks.ask(10, lambda answer: None) for _ in range(3)]
    with pytest.raises(AskFailed, match="3 questions"):
        asks.ask(10, lambda answer: None)
    asks.forget(numbers[0])
    asks.ask(10, lambda answer: None)


def test_all_that_wait_hear_of_the_end() -> None:
    asks, answers = Asks(2), []
    asks.ask(10, answers.append)
    asks.ask(10, answers.append)
    asks.end("reset by peer")
    assert [isinstance(answer, AskFailed) for answer in answers] == [True, True]
    with pytest.raises(AskFailed, match="reset by peer"):
        asks.ask(10, answers.append)
