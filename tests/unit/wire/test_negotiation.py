"""What server and client agree on at connection.tune, in RabbitMQ's words where they do not."""

from __future__ import annotations

import pytest

from leveret.errors import HardError
from leveret.wire.connection_methods import ConnectionTune, ConnectionTuneOk
from leveret.wire.limits import CHANNEL_MAX, FRAME_MAX, HEARTBEAT_S
from leveret.wire.negotiation import Agreement, agree, answer_tune

OFFER = ConnectionTune(CHANNEL_MAX, FRAME_MAX, HEARTBEAT_S)


@pytest.mark.parametrize(
    "answer", [(2047, 131072, 60), (1, 4096, 1), (2047, 131072, 0), (10, 8192, 65535), (2046, 131071, 59)]
)
def test_what_is_within_the_offer_holds(answer: tuple[int, int, int]) -> None:
    assert agree(OFFER, ConnectionTuneOk(*answer)) == Agreement(*answer)


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "words"),
    [
        (2047, 131073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (2047, 0, "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"),
        (2047, 4095, "negotiated frame_max = 4095 is lower than the minimum allowed value (4096)"),
        (2048, 131072, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (0, 131072, "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
        # The frame size is judged first.
        (2048, 1, "negotiated frame_max = 1 is lower than the minimum allowed value (4096)"),
    ],
)
def test_what_is_beyond_it_is_refused(channel_max: int, frame_max: int, words: str) -> None:
    with pytest.raises(HardError) as caught:
        agree(OFFER, ConnectionTuneOk(channel_max, frame_max, 60))
    assert caught.value.code == 530
    assert caught.value.reply_text == f"NOT_ALLOWED - {words}"
    assert caught.value.method == ConnectionTune.METHOD


def test_a_server_without_limits_takes_what_it_gets() -> None:
    offer = ConnectionTune(0, 0, 0)
    assert agree(offer, ConnectionTuneOk(0, 0, 0)) == Agreement(0, 0, 0)
    assert agree(offer, ConnectionTuneOk(65535, 2**32 - 1, 5)) == Agreement(65535, 2**32 - 1, 5)
    with pytest.raises(HardError, match="lower than the minimum"):
        agree(offer, ConnectionTuneOk(0, 100, 0))


@pytest.mark.parametrize(
    ("offered", "wanted", "answer"),
    [
        ((2047, 131072, 60), (0, 0, 0), (2047, 131072, 60)),
        ((2047, 131072, 60), (10, 65536, 30), (10, 65536, 30)),
        ((2047, 131072, 60), (65535, 2**20, 600), (2047, 131072, 60)),
        ((0, 0, 0), (10, 65536, 30), (10, 65536, 30)),
    ],
)
def test_a_client_answers_with_the_lower(
    offered: tuple[int, int, int], wanted: tuple[int, int, int], answer: tuple[int, int, int]
) -> None:
    tune_ok = answer_tune(ConnectionTune(*offered), Agreement(*wanted))
    assert tune_ok == ConnectionTuneOk(*answer)
    assert agree(ConnectionTune(*offered), tune_ok) == Agreement(*answer)
