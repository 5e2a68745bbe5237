"""What the client library raises. All of it is a ClientError.

ClientError
├── InvalidUrl             an address that makes no sense, and why
├── ConnectionFailed       no broker could be reached, with what each attempt met
│   └── AuthenticationFailed   the broker did not let us in
├── ConnectionLost         the connection went away, or the broker closed it
├── ChannelClosed          the broker closed the channel, with its code and words
├── ConsumerCancelled      a queue delivers to us no more, and why
├── ClientClosed           the connection, producer or consumer was closed by its user
├── DeadlineExceeded       something took too long; a TimeoutError as well
├── Unroutable             a mandatory message reached no queue
├── Refused                the broker did not take a message
├── NoPartitions           which streams a super stream consists of is not known
├── BatchFailed            some messages of a batch failed, with their places in it
├── StaleDelivery          a delivery whose channel is gone
└── AlreadySettled         a delivery that was settled before"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from leveret.errors import AlreadySettled, ClientError, StaleDelivery

__all__ = [
    "AlreadySettled",
    "AuthenticationFailed",
    "BatchFailed",
    "ChannelClosed",
    "ClientClosed",
    "ClientError",
    "ConnectionFailed",
    "ConnectionLost",
    "ConsumerCancelled",
    "DeadlineExceeded",
    "InvalidUrl",
    "NoPartitions",
    "Refused",
    "StaleDelivery",
    "Unroutable",
    "again",
    "fresh",
]

E = TypeVar("E", bound=ClientError)


def again(error: ClientError) -> ClientError:
    """One error may have to be raised to many, and must not remember the ways of all of them."""
    return error.with_traceback(None)


def fresh(error: E) -> E:
    """An equal error, for one of many who wait for the same thing."""
    made = type(error).__new__(type(error), *error.args)
    made.__dict__.update(error.__dict__)
    return made


class InvalidUrl(ClientError, ValueError):
    """Never quotes the URL: there may be a password in it."""


class ConnectionFailed(ClientError):
    """`attempts` are (address, reason), in their order."""

    def __init__(self, text: str, attempts: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(text)
        self.attempts = list(attempts)


class AuthenticationFailed(ConnectionFailed):
    """The broker did not let us in: a wrong user or password, or no right to the virtual host."""


class ConnectionLost(ClientError):
    """`code` is the broker's reply code if it closed the connection itself."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason if code is None else f"the broker closed the connection: {code} {reason}")
        self.reason = reason
        self.code = code


class ChannelClosed(ClientError):
    """`method` is what it was caused by, such as "queue.declare", or None."""

    def __init__(self, code: int, text: str, method: str | None = None) -> None:
        super().__init__(f"{code} {text}" if method is None else f"{method}: {code} {text}")
        self.code = code
        self.text = text
        self.method = method


class ConsumerCancelled(ClientError):
    """The broker ended a consumer, or did not take it back: its queue was deleted, is exclusively another's, ..."""

    def __init__(self, queue: str, reason: str) -> None:
        super().__init__(f"the consumer of queue {queue!r} is over: {reason}")
        self.queue = queue
        self.reason = reason


class ClientClosed(ClientError):
    """It was closed by its user, and can do nothing any more."""


class DeadlineExceeded(ClientError, TimeoutError):
    """What was waited for did not happen in time."""


class Unroutable(ClientError):
    """A mandatory message reached no queue: the broker sent it back."""

    def __init__(self, exchange: str, routing_key: str, code: int, text: str, message_id: str = "") -> None:
        where = f"exchange {exchange!r}" if exchange else "the default exchange"
        super().__init__(f"no queue takes a message to {where} with the routing key {routing_key!r}: {code} {text}")
        self.exchange = exchange
        self.routing_key = routing_key
        self.code = code
        self.text = text
        self.message_id = message_id


class Refused(ClientError):
    """The broker answered a message with basic.nack: it has not taken it, for a queue is full or an error happened."""

    def __init__(self, exchange: str, routing_key: str, message_id: str = "") -> None:
        where = f"exchange {exchange!r}" if exchange else "the default exchange"
        super().__init__(f"the broker refused a message to {where} with the routing key {routing_key!r}")
        self.exchange = exchange
        self.routing_key = routing_key
        self.message_id = message_id


class BatchFailed(ClientError):
    """Some messages of a batch failed; the others stand. `failures` are (place in the batch, error), in their order.
    From the place `unsent_from` on nothing was taken from the batch, if it is not None."""

    def __init__(self, failures: Sequence[tuple[int, Exception]], unsent_from: int | None = None) -> None:
        rest = "" if unsent_from is None else f", and from message {unsent_from} on none was sent"
        first = f": the first is message {failures[0][0]}, {failures[0][1]}" if failures else ""
        super().__init__(f"{len(failures)} messages of the batch failed{rest}{first}")
        self.failures = list(failures)
        self.unsent_from = unsent_from


class NoPartitions(ClientError):
    """The partitions of a super stream are not known: there is none of this name, it has none, or this broker cannot
    be asked for them over AMQP."""
