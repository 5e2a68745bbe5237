"""The queues, streams and exchanges of the scripts, and who publishes what to where."""

from typing import Final

from tests.conformance.amqp_codec import Value
from tests.crash.client import CrashClient

# Nobody takes anything from `stay`. What is rejected in `work` goes to `dead` and into `letters`.
WORK: Final = "work"
DEAD: Final = "dead"
STAY: Final = "stay"
COPY: Final = "copy"
DOOMED: Final = "doomed"
NEW: Final = "new"
EVENTS: Final = "events"
LETTERS: Final = "letters"
SHORT_LIVED: Final = "short-lived"
DOOMED_STREAM: Final = "doomed-stream"
NEW_STREAM: Final = "new-stream"
QUEUES: Final = (WORK, DEAD, STAY, COPY, DOOMED, NEW)
STREAMS: Final = (EVENTS, LETTERS, SHORT_LIVED, DOOMED_STREAM, NEW_STREAM)

FANOUT: Final = "fan"
BURIAL: Final = "burial"
ARGUMENTS: Final[dict[str, dict[str, Value]]] = {
    WORK: {"x-dead-letter-exchange": BURIAL},
    DEAD: {},
    STAY: {},
    COPY: {},
    DOOMED: {},
    EVENTS: {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 8192},
    LETTERS: {"x-queue-type": "stream"},
    SHORT_LIVED: {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 4096, "x-max-length-bytes": 8192},
    DOOMED_STREAM: {"x-queue-type": "stream"},
    NEW: {},
    NEW_STREAM: {"x-queue-type": "stream"},
}
BINDINGS: Final = ((FANOUT, COPY), (FANOUT, EVENTS), (BURIAL, DEAD), (BURIAL, LETTERS))
# Which exchange and key a publisher uses, and where its messages come to; the number is its own.
TARGETS: Final[dict[int, tuple[str, str, tuple[str, ...]]]] = {
    0: ("", WORK, (WORK,)),
    1: ("", EVENTS, (EVENTS,)),
    2: ("", DOOMED, (DOOMED,)),
    3: ("", STAY, (STAY,)),
    4: ("", DOOMED_STREAM, (DOOMED_STREAM,)),
    5: ("", SHORT_LIVED, (SHORT_LIVED,)),
    6: (FANOUT, "", (COPY, EVENTS)),
    7: ("", NEW, (NEW,)),
    8: ("", NEW_STREAM, (NEW_STREAM,)),
    # Behind acks, to be confirmed after them.
    9: ("", WORK, (WORK,)),
}
FENCE: Final = 9


def declare(client: CrashClient, name: str) -> None:
    client.call(1, "queue.declare", queue=name, durable=True, arguments=ARGUMENTS[name])
