"""Who must go when messages that are unfinished are too much for the node: never the small one."""

from __future__ import annotations

import pytest

from leveret.auth.node_limits import NodeLimits
from leveret.auth.unfinished import UnfinishedMessages
from leveret.core.connection.unfinished import Unfinished
from leveret.errors import HardError

MIB = 1 << 20


class Client:
    def __init__(self, books: UnfinishedMessages, user: str, name: str = "") -> None:
        self._books = books
        self.user = user
        self.name = name or user
        self.closed: tuple[int, str] | None = None
        self.account: Unfinished = books.open_account(self)

    def close_by_broker(self, code: int, text: str) -> None:
        self.closed = (code, text)
        self.account.give(self.account.held)
        self._books.close_account(self.account)


def books_of(**limits: int) -> UnfinishedMessages:
    return UnfinishedMessages(NodeLimits(body_bytes_max=MIB, stream_frame_max=8192, **limits))


def test_one_message_of_the_largest_size_always_fits() -> None:
    books = books_of(unfinished_per_connection_bytes_max=1, unfinished_bytes_max=1)
    client = Client(books, "ann")
    client.account.take(MIB)
    assert client.closed is None


def test_zero_is_no_limit() -> None:
    books = books_of(unfinished_per_connection_bytes_max=0, unfinished_bytes_max=0)
    Client(books, "ann").account.take(1 << 40)


def test_the_user_who_has_most_loses_the_connection_that_has_most() -> None:
    books = books_of(unfinished_bytes_max=10 * MIB)
    decent = Client(books, "decent")
    decent.account.take(3 * MIB)
    crowd = [Client(books, "greedy", f"greedy {number}") for number in range(6)]
    for client in crowd:
        client.account.take(MIB)
    crowd[4].account.take(MIB // 2)
    decent.account.take(MIB)
    assert decent.closed is None, "it has the largest of all messages, but not the most of any user"
    assert [client.closed is not None for client in crowd] == [False, False, False, False, True, False]
    assert crowd[4].closed == (506, f"unfinished messages of all clients are larger than {10 * MIB} bytes")
    assert (books.held_bytes, books.closed_total) == (9 * MIB, 1)


def test_whoever_grows_and_has_most_itself_is_refused() -> None:
    books = books_of(unfinished_bytes_max=2 * MIB)
    greedy, decent = Client(books, "greedy"), Client(books, "decent")
    decent.account.take(MIB)
    greedy.account.take(MIB)
    with pytest.raises(HardError) as refusal:
        greedy.account.take(1)
    assert refusal.value.code == 506
    assert decent.closed is None
    assert books.held_bytes == 2 * MIB


def test_settings_change_while_it_runs() -> None:
    books = books_of(unfinished_bytes_max=0)
    client = Client(books, "ann")
    client.account.take(5 * MIB)
    books.configure(NodeLimits(body_bytes_max=MIB, stream_frame_max=8192, unfinished_bytes_max=2 * MIB))
    with pytest.raises(HardError):
        client.account.take(1)
