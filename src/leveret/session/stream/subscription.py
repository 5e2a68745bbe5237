"""One subscription of a stream client: where it begins, and whose turn it is if it is one of a group.

The data plane sends (core/stream/chunk.py); this decides when it may. As a member of a group it tells the client when
it becomes active, and begins where the client answers; when it hands over it stops at once, and is done when the
client says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.stream_groups import GroupKey
from leveret.core.stream.chunk import StreamSubscription
from leveret.core.stream.queue import StreamQueue
from leveret.queues.stream_offset import FIRST, LAST, NEXT, Start
from leveret.wire import stream_commands as commands
from leveret.wire.stream_codes import OffsetType
from leveret.wire.stream_commands import OffsetSpec

if TYPE_CHECKING:
    from leveret.session.stream.session import StreamSession


class Subscription:
    def __init__(
        self,
        session: StreamSession,
        core: StreamSubscription,
        stream: StreamQueue,
        offset: OffsetSpec,
        properties: dict[str, str] | None = None,
    ) -> None:
        self._session = session
        self.core = core
        self.stream = stream
        self.stream_name: str = stream.record.name
        # What was asked for: a member of a group may begin there as well.
        self.offset = offset
        self.properties = properties or {}
        # The group that this is a member of, None if of none.
        self.group: GroupKey | None = None
        # Whether it is this member's turn.
        self.active = False
        # Our question that the client has not answered yet.
        self._asked = 0
        self.gone = False

    # ---- as a member of a group

    def activate(self) -> None:
        self.active = True
        self._ask(self._told)

    def _told(self, response: commands.ConsumerUpdateResponse) -> None:
        if not self.active or self.gone:
            return
        offset = response.offset if response.offset.kind != OffsetType.NONE else self.offset
        self._session.wait_for(self.begin(offset))

    def deactivate(self, done: Callable[[], None]) -> None:
        self.active = False
        self.core.pause()
        self._ask(lambda _: done())

    def _ask(self, answered: Callable[[commands.ConsumerUpdateResponse], None]) -> None:
        """Tells the client whether it is active. An older question is answered with this one."""
        session, active = self._session, int(self.active)
        session.forget_answer(self._asked)
        self._asked = session.ask(
            lambda correlation_id: commands.ConsumerUpdate(correlation_id, self.core.id, active), answered
        )
        session.board.kick()

    # ---- serving

    async def begin(self, offset: OffsetSpec) -> None:
        """Serves from there on."""
        place = await locate(self._session, self.stream, offset)
        if not self.gone and not self.stream.deleted and (self.group is None or self.active):
            self.core.begin(place)
            self._session.board.kick()

    def end(self) -> None:
        self.gone = True
        self.stream.subscriptions -= 1
        self.core.pause()
        self._session.forget_answer(self._asked)
        if self.group is not None:
            self._session.broker.stream_groups.leave(self.group, self)


# What a client may ask for, as AMQP's consumers ask for it.
STARTS = {OffsetType.FIRST: FIRST, OffsetType.LAST: LAST, OffsetType.NEXT: NEXT, OffsetType.OFFSET: "offset"}


async def locate(session: StreamSession, stream: StreamQueue, offset: OffsetSpec) -> int:
    """The offset that a client means. One that is not there yet stands for the end, as in RabbitMQ: the stream may have
    been deleted and made anew since the client stored its offset."""
    start = Start(STARTS.get(offset.kind, "since"), max(0, offset.value))
    place: int = await session.streams.locate(stream, start)
    return min(place, int(stream.committed_offset))
