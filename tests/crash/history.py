"""What the clients of one test did and saw: the only evidence on which the checkers judge a broker.

Written by the threads of the load, each event with one append, which Python makes whole; read when they have ended."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from tests.crash.messages import MessageId

# The name of the consumer that empties a queue when its own consumers have gone.
DRAIN: Final = "drain"


class Kind(Enum):
    """What happened to a message at a consumer."""

    DELIVERED = "delivered"
    # Written down before the ack or nack is sent, so that whatever follows from it comes later in the history.
    ACKED = "acked"
    REQUEUED = "requeued"
    REJECTED = "rejected"
    # The connection ended without a goodbye. The broker may not have read the last acks.
    CUT = "cut"


# What an event is about that is about no message.
NO_MESSAGE: Final = MessageId(-1, -1)


class Event(NamedTuple):
    """One event at one consumer of one queue. A life is the time between two deaths of the broker."""

    kind: Kind
    life: int
    queue: str
    consumer: str
    message: MessageId
    redelivered: bool = False
    # Found in the socket while the connection was being closed: others may have got it by then.
    left_behind: bool = False


class Sighting(NamedTuple):
    """A delivery with what only some checkers ask for: its properties as they came, and when, by the wall clock."""

    life: int
    queue: str
    consumer: str
    message: MessageId
    redelivered: bool
    properties_raw: bytes
    at: float


@dataclass
class Published:
    """What one publisher sent: the sequences 0 to attempted - 1, each to all of its queues."""

    queues: tuple[str, ...]
    attempted: int = 0
    # Only sequences whose basic.ack was read from the socket.
    confirmed: set[int] = field(default_factory=set)
    nacked: set[int] = field(default_factory=set)


@dataclass
class History:
    """Everything that was seen, over all lives of the broker."""

    published: dict[int, Published] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    # Bodies that no publisher sent, as far as they can be described.
    damaged: list[str] = field(default_factory=list)
    # Channels and connections that the broker closed, in its words.
    refusals: list[str] = field(default_factory=list)
    # How often the broker told a publisher that it is blocked, and that it no longer is.
    blocked_count: int = 0
    unblocked_count: int = 0
    # Counted up by whoever ends the broker, after its death and before its next start.
    life: int = 0
    # Every delivery once more, with all that came with it; None if nobody will ask.
    sightings: list[Sighting] | None = None

    @property
    def confirmed_count(self) -> int:
        return sum(len(published.confirmed) for published in self.published.values())

    @property
    def attempted_count(self) -> int:
        return sum(published.attempted for published in self.published.values())

    def of_kind(self, kind: Kind) -> Iterable[Event]:
        return (event for event in self.events if event.kind is kind)
