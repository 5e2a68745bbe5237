"""Frames of the stream protocol: each command's octets, and what is refused before anything is made of it."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from leveret.errors import HardError
from leveret.wire import stream_commands as commands
from leveret.wire.limits import STREAM_ITEMS_MAX
from leveret.wire.stream_codec import decode_command, encode_command, frame_of
from leveret.wire.stream_codes import CODE_NAMES, COMMAND_VERSIONS, Code, Key, OffsetType
from leveret.wire.stream_commands import COMMANDS, Command, OffsetSpec

EXAMPLES: list[tuple[Command, str]] = [
    (commands.PeerProperties(1, {"a": "b"}), "00110001 00000001 00000001 000161 000162"),
    (commands.PeerPropertiesResponse(1, 1, {}), "80110001 00000001 0001 00000000"),
    (commands.SaslHandshake(2), "00120001 00000002"),
    (commands.SaslHandshakeResponse(2, 1, ["PLAIN"]), "80120001 00000002 0001 00000001 0005504c41494e"),
    (commands.SaslAuthenticate(3, "X", b"\x00u"), "00130001 00000003 000158 00000002 0075"),
    (commands.SaslAuthenticateResponse(3, 8), "80130001 00000003 0008"),
    (commands.Tune(1048576, 60), "00140001 00100000 0000003c"),
    (commands.TuneResponse(1, 2), "80140001 00000001 00000002"),
    (commands.Open(4, "/"), "00150001 00000004 00012f"),
    (commands.OpenResponse(4, 12, {}), "80150001 00000004 000c 00000000"),
    (commands.Close(5, 1, "ok"), "00160001 00000005 0001 00026f6b"),
    (commands.CloseResponse(5, 1), "80160001 00000005 0001"),
    (commands.Heartbeat(), "00170001"),
    (commands.DeclarePublisher(6, 255, "", "s"), "00010001 00000006 ff 0000 000173"),
    (commands.PublishConfirm(1, [1, 2]), "00030001 01 00000002 0000000000000001 0000000000000002"),
    (commands.PublishError(1, [(7, 18)]), "00040001 01 00000001 0000000000000007 0012"),
    (commands.QueryPublisherSequenceResponse(1, 1, 9), "80050001 00000001 0001 0000000000000009"),
    (
        commands.Subscribe(7, 1, "s", OffsetSpec(OffsetType.NEXT), 10, {"n": "v"}),
        "00070001 00000007 01 000173 0003 000a 00000001 00016e 000176",
    ),
    (
        commands.Subscribe(7, 1, "s", OffsetSpec(OffsetType.OFFSET, 2**64 - 1), 0, {}),
        "00070001 00000007 01 000173 0004 ffffffffffffffff 0000 00000000",
    ),
    (
        commands.Subscribe(7, 1, "s", OffsetSpec(OffsetType.TIMESTAMP, -1), 0, {}),
        "00070001 00000007 01 000173 0005 ffffffffffffffff 0000 00000000",
    ),
    (commands.Credit(1, 5), "00090001 01 0005"),
    (commands.CreditResponse(4, 1), "80090001 0004 01"),
    (commands.StoreOffset("r", "s", 5), "000a0001 000172 000173 0000000000000005"),
    (commands.QueryOffsetResponse(8, 19, 0), "800b0001 00000008 0013 0000000000000000"),
    (commands.Create(9, "s", {"max-age": "1h"}), "000d0001 00000009 000173 00000001 00076d61782d616765 00023168"),
    (commands.Metadata(1, ["a", "b"]), "000f0001 00000001 00000002 000161 000162"),
    (
        commands.MetadataResponse(1, [(0, "h", 5552)], [("s", 1, 0, [0]), ("t", 2, 65535, [])]),
        "800f0001 00000001 00000001 0000 000168 000015b0 00000002"
        "000173 0001 0000 00000001 0000 000174 0002 ffff 00000000",
    ),
    (commands.MetadataUpdate(6, "s"), "00100001 0006 000173"),
    (commands.Route(1, "k", "s"), "00180001 00000001 00016b 000173"),
    (commands.PartitionsResponse(1, 1, ["a"]), "80190001 00000001 0001 00000001 000161"),
    (commands.ConsumerUpdate(1, 2, 1), "001a0001 00000001 02 01"),
    (commands.ConsumerUpdateResponse(1, 1, OffsetSpec(0)), "801a0001 00000001 0001 0000"),
    (commands.ExchangeCommandVersions(1, [(2, 1, 2)]), "001b0001 00000001 00000001 000200010002"),
    (commands.StreamStatsResponse(1, 1, {"x": -1}), "801c0001 00000001 0001 00000001 000178 ffffffffffffffff"),
    (
        commands.CreateSuperStream(1, "s", ["s-0"], ["0"], {}),
        "001d0001 00000001 000173 00000001 0003732d30 00000001 000130 00000000",
    ),
    (commands.DeleteSuperStream(1, "s"), "001e0001 00000001 000173"),
    (commands.ResolveOffsetSpecResponse(1, 1, 4, 8), "801f0001 00000001 0001 0004 0000000000000008"),
]


@pytest.mark.parametrize(("command", "octets"), EXAMPLES)
def test_each_command_has_its_octets(command: Command, octets: str) -> None:
    expected = bytes.fromhex(octets)
    assert encode_command(command) == expected
    assert decode_command(expected) == command
    assert frame_of(command) == len(expected).to_bytes(4, "big") + expected


def test_every_key_has_its_command_but_for_what_the_data_plane_reads() -> None:
    keys = {value for name, value in vars(Key).items() if name.isupper()}
    assert keys - {key for key in COMMANDS if key < 0x8000} == {Key.PUBLISH, Key.DELIVER}
    assert [key for key, _, _ in COMMAND_VERSIONS] == list(range(1, 32))
    assert [key for key, _, highest in COMMAND_VERSIONS if highest == 2] == [Key.PUBLISH, Key.DELIVER]
    assert CODE_NAMES[Code.STREAM_DOES_NOT_EXIST] == "stream does not exist"


def test_what_clients_do_otherwise_is_understood() -> None:
    # A string and octets that are null, a subscription without properties, an offset that is not needed.
    assert decode_command(bytes.fromhex("00150001 00000004 ffff")) == commands.Open(4, "")
    assert decode_command(bytes.fromhex("00130001 00000003 ffff ffffffff")) == commands.SaslAuthenticate(3, "", b"")
    assert decode_command(bytes.fromhex("00070001 00000007 01 000173 0001 000a")) == commands.Subscribe(
        7, 1, "s", OffsetSpec(1), 10, {}
    )
    assert decode_command(bytes.fromhex("801a0001 00000001 0001 0003 0000000000000000")) == (
        commands.ConsumerUpdateResponse(1, 1, OffsetSpec(3))
    )


@pytest.mark.parametrize(
    "octets",
    [
        "",
        "0017",
        "001700",
        "00120001 000000",
        "00120001 00000002 00",
        "00150001 00000004 0002 2f",
        "00150001 00000004 8000" + "61" * 40,
        "00150001 00000004 0001 ff",
        "00130001 00000003 0000 7fffffff",
        "000f0001 00000001 00000002 0001 61",
        "000f0001 00000001 ffffffff",
        "00110001 00000001 00000002 0001 61 0001 62",
        "00070001 00000007 01 000173 0006 000a",
        "00070001 00000007 01 000173 0004 00",
        "801a0001 00000001 0001 0003 00000000000000",
    ],
)
def test_a_malformed_frame_is_refused(octets: str) -> None:
    with pytest.raises(HardError, match="malformed stream frame") as refusal:
        decode_command(bytes.fromhex(octets))
    assert refusal.value.code == 501


@pytest.mark.parametrize("octets", ["00000001", "00200001", "00080001", "80030001", "00170002", "00170000", "80200001"])
def test_unknown_commands_and_versions_are_refused(octets: str) -> None:
    with pytest.raises(HardError, match="unknown command") as refusal:
        decode_command(bytes.fromhex(octets))
    assert refusal.value.code == 503


def test_a_list_has_a_limit_however_long_the_frame_is() -> None:
    names = struct.pack(">HHII", Key.METADATA, 1, 1, STREAM_ITEMS_MAX + 1) + bytes(2 * STREAM_ITEMS_MAX + 2)
    tracemalloc.start()
    with pytest.raises(HardError, match="does not fit"):
        decode_command(names)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


def test_a_text_of_ours_that_is_too_long_is_cut_within_its_characters() -> None:
    reason = "é" * 20000
    close = decode_command(encode_command(commands.Close(1, 1, reason)))
    assert isinstance(close, commands.Close)
    assert len(close.reason) == 16383
    assert reason.startswith(close.reason)
