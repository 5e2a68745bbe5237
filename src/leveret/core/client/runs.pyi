# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any

from leveret.core.client.channel_codec import ChannelCodec

def publish_run(
    codec: ChannelCodec, messages: list[Any], start: int, end: int, bytes_max: int, due: float, owner: Any
) -> int: ...
def tally(settled: list[Any]) -> tuple[Any, ...]: ...
def find_untried(messages: list[Any], start: int, known: set[Any] | None) -> int: ...
