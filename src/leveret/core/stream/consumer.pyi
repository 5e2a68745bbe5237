# Generated from the .py and the .pxd beside it by `make stubs`; not to be edited.

from typing import Any, final

from leveret.core.connection.channel import Channel
from leveret.core.connection.consumer import Consumer
from leveret.core.queue.contract import Queue
from leveret.core.stream.cursor import Cursor
from leveret.core.stream.queue import StreamQueue

@final
class StreamConsumer(Consumer):
    @property
    def stream(self) -> StreamQueue: ...
    @property
    def cursor(self) -> Cursor | None: ...
    @property
    def ended(self) -> bool: ...
    stop_offset: int
    on_stop: Any
    on_gone: Any
    name: bytes | None
    values: Any
    blooms: list[Any] | None
    unfiltered: bool
    stamped: bool
    def __init__(
        self,
        channel: Channel,
        queue: Queue | None,
        tag: bytes,
        prefetch_count: int,
        prefetch_bytes: int,
        arguments: Any,
    ) -> None: ...
    def begin(self, offset: Any) -> None: ...
    def pause(self) -> None: ...
    def drain(self, done: Any) -> None: ...
    def stop(self) -> None: ...
    def finish(self) -> int: ...
    def go_on(self) -> int: ...
    def cursor_ready(self) -> None: ...
    def transport(self) -> int: ...
    def settled(self, offset: int) -> int: ...
