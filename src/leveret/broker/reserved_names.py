"""Names that the broker keeps for itself."""

from __future__ import annotations

from leveret.errors import SoftError

RESERVED_PREFIX = "amq."


def refuse_reserved_queue(name: str) -> None:
    """For a queue that is to be made, by whomever; raises 403."""
    if name.startswith(RESERVED_PREFIX):
        raise SoftError(403, f"queue name '{name}' contains reserved prefix '{RESERVED_PREFIX}*'")
