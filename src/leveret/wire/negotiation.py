"""What the two sides of a connection agree on: the server's tune, the client's tune-ok, and the outcome.

Pure: never sends anything. Called by session/ when tune-ok arrives, and by client/ to answer tune."""

from typing import NamedTuple

from leveret.errors import HardError
from leveret.wire.connection_methods import ConnectionTune, ConnectionTuneOk
from leveret.wire.constants import FRAME_MIN_SIZE

__all__ = ["Agreement", "agree", "answer_tune"]


class Agreement(NamedTuple):
    """The values that hold for the rest of the connection. 0 means no limit, and no heartbeats."""

    channel_max: int
    frame_max: int
    heartbeat: int


def agree(offered: ConnectionTune, answered: ConnectionTuneOk) -> Agreement:
    """The server's side. Raises HardError(530) in RabbitMQ's words if the answer is out of bounds.

    As in RabbitMQ, a 0 in the answer to a limited offer asks for no limit at all and is refused, and the heartbeat is
    the client's to choose: a longer one too, or none."""
    _check("frame_max", FRAME_MIN_SIZE, offered.frame_max, answered.frame_max)
    _check("channel_max", 1, offered.channel_max, answered.channel_max)
    return Agreement(answered.channel_max, answered.frame_max, answered.heartbeat)


def answer_tune(offered: ConnectionTune, wanted: Agreement) -> ConnectionTuneOk:
    """The client's side: the lower of what is offered and what is wanted, where 0 is no wish."""
    return ConnectionTuneOk(
        channel_max=_lower(offered.channel_max, wanted.channel_max),
        frame_max=_lower(offered.frame_max, wanted.frame_max),
        heartbeat=_lower(offered.heartbeat, wanted.heartbeat),
    )


def _check(field: str, least: int, offered: int, answered: int) -> None:
    if answered != 0 and answered < least:
        raise _refusal(field, answered, "lower than the minimum", least)
    if offered != 0 and (answered == 0 or answered > offered):
        raise _refusal(field, answered, "higher than the maximum", offered)


def _refusal(field: str, answered: int, relation: str, bound: int) -> HardError:
    # RabbitMQ explains the 0 of channel_max only.
    detail = " (no limit)" if field == "channel_max" and answered == 0 else ""
    return HardError(
        530, f"negotiated {field} = {answered}{detail} is {relation} allowed value ({bound})", ConnectionTune.METHOD
    )


def _lower(offered: int, wanted: int) -> int:
    return min(offered, wanted) if offered and wanted else max(offered, wanted)
