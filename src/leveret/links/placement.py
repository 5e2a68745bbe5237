"""Which node of a cluster runs a link: exactly one. The only place that decides it."""

from __future__ import annotations

from typing import Protocol


class Placement(Protocol):
    def runs_here(self, kind: str, vhost: str, name: str) -> bool:
        """Whether this node runs the link. Links are looked at again when the answer may have changed."""


class Alone:
    """A node without a cluster runs every link."""

    def runs_here(self, kind: str, vhost: str, name: str) -> bool:
        return True
