"""The checkers of streams find what they are for, and nothing in a history that is right."""

import pytest

from tests.crash.history import Published
from tests.crash.messages import MessageId
from tests.crash.stream_checkers import Read, Session, State, StreamHistory, findings

STREAM = "s"


def a_good_history(first: int = 0) -> StreamHistory:
    """Ten messages, all confirmed but the last two, of which one is there; one reader of everything in each of two
    lives, and one that goes on where it was."""
    history = StreamHistory()
    history.published[1] = Published((STREAM,), 10, set(range(8)))
    history.sessions = [
        Session(0, STREAM, "all", False, None),
        Session(1, STREAM, "all", False, None),
        Session(0, STREAM, "named", False, -1),
        Session(1, STREAM, "named", False, 4),
        Session(1, STREAM, "some", True, None),
    ]
    for session, offsets in enumerate((range(6), range(first, 9), range(6), range(max(4, first), 9), (2, 5, 8))):
        history.reads += [Read(session, offset, MessageId(1, offset)) for offset in offsets if offset >= 0]
    history.states.append(State(1, STREAM, first, 9, {offset: MessageId(1, offset) for offset in range(first, 9)}))
    return history


def kinds(history: StreamHistory) -> set[str]:
    return {finding.partition(":")[0] for finding in findings(history)}


@pytest.mark.parametrize("first", [0, 3])
def test_nothing_is_found_where_nothing_is_wrong(first: int) -> None:
    assert findings(a_good_history(first)) == []


def test_a_reader_jumps_only_where_retention_deleted() -> None:
    history = a_good_history(first=4)
    history.sessions.append(Session(0, STREAM, "slow", False, None))
    history.reads += [Read(5, 0, MessageId(1, 0)), Read(5, 4, MessageId(1, 4))]
    assert findings(history) == []
    history.reads.append(Read(5, 6, MessageId(1, 6)))
    assert kinds(history) == {"skipped"}


def test_a_confirmed_message_is_lost() -> None:
    history = a_good_history()
    del history.states[0].messages[7]
    assert kinds(history) >= {"lost", "hole", "vanished"}


def test_one_that_was_confirmed_and_is_behind_the_end() -> None:
    history = a_good_history()
    history.published[1].confirmed.add(9)
    assert kinds(history) == {"lost"}


def test_two_messages_at_an_offset() -> None:
    history = a_good_history()
    history.sessions.append(Session(0, STREAM, "other", False, None))
    history.reads.append(Read(5, 3, MessageId(1, 9)))
    assert kinds(history) == {"ambiguous", "twice", "vanished"} - {"twice"}


def test_a_message_at_two_offsets() -> None:
    history = a_good_history()
    history.published[1].attempted = 20
    history.states[0].messages[9] = MessageId(1, 2)
    assert kinds(history) == {"twice", "disordered"}


def test_a_reader_goes_back() -> None:
    history = a_good_history()
    history.reads.append(Read(1, 3, MessageId(1, 3)))
    assert kinds(history) == {"reordered"}


def test_a_filter_may_leave_out_but_not_go_back() -> None:
    history = a_good_history()
    history.reads.append(Read(4, 5, MessageId(1, 5)))
    assert kinds(history) == {"reordered"}


def test_what_was_read_is_gone_later() -> None:
    history = a_good_history()
    history.reads.append(Read(1, 9, MessageId(1, 9)))
    assert kinds(history) == {"vanished"}


def test_a_publishers_messages_in_another_order() -> None:
    history = StreamHistory()
    history.published[1] = Published((STREAM,), 3)
    order = {0: MessageId(1, 0), 1: MessageId(1, 2), 2: MessageId(1, 1)}
    history.states.append(State(0, STREAM, 0, 3, order))
    assert kinds(history) == {"disordered"}


def test_one_that_nobody_sent() -> None:
    history = a_good_history()
    history.published[1].attempted = 8
    assert kinds(history) == {"phantom"}
    history.damaged.append("some octets")
    assert kinds(history) == {"phantom", "damaged"}


def test_a_name_goes_on_too_far() -> None:
    history = a_good_history()
    history.sessions[3] = history.sessions[3]._replace(acked=2)
    assert kinds(history) == {"forgotten"}
