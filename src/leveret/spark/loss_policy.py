"""What happens where messages that were to be read are gone: an error, or a warning and the next message there is, as
the option failOnDataLoss says. One place decides it, so that nothing is passed over without a word."""

from __future__ import annotations

import logging

from leveret.spark.errors import DataLoss
from leveret.spark.positions import Position
from leveret.spark.streams import Ends

__all__ = ["LossPolicy"]

log = logging.getLogger(__name__)


class LossPolicy:
    def __init__(self, fails: bool) -> None:
        self._fails = fails
        # A loss that is met again, as the next trigger does that had nothing else to do, is told once.
        self._told: set[str] = set()

    def deleted(self, names: list[str]) -> None:
        """Streams that the checkpoint knows and that are not among those that are read now."""
        if names:
            told = ", ".join(names)
            text = f"the checkpoint has offsets of {told}, which is not read any more: deleted, or not in the options"
            self._lose(text, "begin with a new checkpoint, or go on without", "the query goes on without")

    def made_anew(self, name: str, known: Position, identity: str | None) -> None:
        text = (
            f"the checkpoint is at offset {known.offset} of the stream {name!r} with the id {known.identity}, and "
            f"there is another one of this name, with the id {identity}: it was deleted and made anew"
        )
        self._lose(text, "begin with a new checkpoint, or with the new stream's first message", "the new one is read")

    def expired(self, name: str, asked: int, ends: Ends) -> int:
        """Gives the offset at which reading goes on."""
        text = (
            f"the messages {asked} to {ends.first - 1} of the stream {name!r} are gone: the oldest there is is "
            f"{ends.first}"
        )
        self._lose(text, "keep them longer, read sooner, or pass over them", "they are passed over")
        return ends.first

    def unread(self, name: str, first: int, end: int) -> None:
        """Messages of a batch that was planned, and whose stream is not there any more."""
        text = f"the messages {first} to {end - 1} of the stream {name!r} are gone: it was deleted, or made anew"
        self._lose(text, "begin with a new checkpoint, or pass over them", "they are passed over")

    def _lose(self, text: str, advice: str, instead: str) -> None:
        if self._fails:
            raise DataLoss(f"{text}; {advice} with failOnDataLoss=false")
        if text not in self._told:
            self._told.add(text)
            log.warning("%s; %s, as failOnDataLoss=false says", text, instead)
