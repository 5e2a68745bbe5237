"""Rounds of crashes on streams: the same deaths as in rounds.py, another load and other checkers."""

from tests.crash import stream_checkers
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import connected
from tests.crash.fault_scenarios import await_confirms
from tests.crash.messages import BODY_BYTES_MIN, MessageId, body_of
from tests.crash.rounds import Crash, CrashRound
from tests.crash.stream_checkers import StreamHistory
from tests.crash.stream_load import (
    KEPT,
    SHORT,
    NamedPublisher,
    StreamLoad,
    declare_streams,
    publishing_properties,
    read_state,
)


class StreamRound(CrashRound):
    """Judged once, at its end, by what the streams have then and by all that was ever read."""

    drain_every = 0

    def __init__(self, broker: BrokerProcess, crash: Crash, seed: int, power_loss: bool = False) -> None:
        self.told = StreamHistory()
        super().__init__(broker, crash, seed, power_loss)

    def _make_history(self) -> StreamHistory:
        return self.told

    def _make_load(self, seed: int) -> StreamLoad:
        return StreamLoad(self.broker.port, self.told, seed)

    def _declare(self) -> None:
        declare_streams(self.broker.port)

    def _judge(self) -> None:
        self.load.stop()
        for stream in (KEPT, SHORT):
            read_state(self.broker.port, self.told, stream)
        stream_checkers.check(self.told)
        assert self.told.last_state(SHORT).first > 0, "retention deleted nothing"
        self._expect_known()

    def _expect_known(self) -> None:
        """All that was confirmed to publishers with a name is sent once more, and nothing of it is taken."""
        for publisher in self.load.publishers:
            if isinstance(publisher, NamedPublisher):
                committed = self.told.last_state(publisher.published.queues[0]).committed
                repeat_all(self.broker.port, publisher)
                after = read_state(self.broker.port, self.told, publisher.published.queues[0]).committed
                assert after == committed, f"{after - committed} messages were taken a second time"


def repeat_all(port: int, publisher: NamedPublisher) -> None:
    messages = [MessageId(publisher.number, sequence) for sequence in sorted(publisher.published.confirmed)]
    with connected(port) as client:
        client.call(1, "confirm.select")
        bodies = [body_of(message, BODY_BYTES_MIN) for message in messages]
        client.publish_burst(publisher.address, bodies, [publishing_properties(message) for message in messages])
        await_confirms(client, len(messages))
