"""How many consumers there may be: of a channel, of a connection, of a user, whichever protocol they speak; and how
much their arguments may take, which are kept as octets.

Only counts. A consumer takes its place before it is made, and leaves it when it is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from leveret.auth.node_limits import NodeLimits
from leveret.errors import HardError, SoftError


class ConsumerLimits:
    def __init__(self, node: Callable[[], NodeLimits]) -> None:
        self._node = node
        self._of_connection: Counter[int] = Counter()
        self._of_user: Counter[str] = Counter()
        self._argument_bytes: Counter[str] = Counter()

    def take(self, connection_id: int, user: str, argument_bytes: int, on_channel: int = 0) -> None:
        """`on_channel` is how many the channel has already. Raises 530, in RabbitMQ's words, if that is as many as it
        may have, and 406 for every other limit."""
        node = self._node()
        if node.consumers_per_channel_max and on_channel >= node.consumers_per_channel_max:
            raise HardError(530, f"reached maximum ({node.consumers_per_channel_max}) of consumers per channel")
        _check("consumers per connection", self._of_connection[connection_id], 1, node.consumers_per_connection_max)
        _check(f"consumers of user '{user}'", self._of_user[user], 1, node.consumers_per_user_max)
        check_arguments(argument_bytes, node.arguments_bytes_max)
        _check(
            f"bytes in arguments of consumers of user '{user}'",
            self._argument_bytes[user],
            argument_bytes,
            node.consumer_arguments_bytes_max,
        )
        self._of_connection[connection_id] += 1
        self._of_user[user] += 1
        self._argument_bytes[user] += argument_bytes

    def leave(self, connection_id: int, user: str, argument_bytes: int) -> None:
        less(self._of_connection, connection_id, 1)
        less(self._argument_bytes, user, argument_bytes)
        less(self._of_user, user, 1)

    def of_user(self, user: str) -> int:
        return self._of_user[user]

    def argument_bytes_of_user(self, user: str) -> int:
        return self._argument_bytes[user]


def check_arguments(argument_bytes: int, most: int) -> None:
    if most and argument_bytes > most:
        raise SoftError(406, f"arguments of {argument_bytes} bytes are larger than configured max size {most}")


def _check(what: str, there: int, more: int, most: int) -> None:
    if most and there + more > most:
        raise SoftError(406, f"reached maximum ({most}) of {what}")


def less(counts: Counter[str] | Counter[int], key: str | int, by: int = 1) -> None:
    """What is counted no more leaves nothing behind: names are whatever people made up."""
    table: Counter[str | int] = counts  # type: ignore[assignment]
    table[key] -= by
    if table[key] <= 0:
        del table[key]
