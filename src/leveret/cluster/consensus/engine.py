"""The consensus engine as the driver sees it: few calls a turn for all groups of a node.

The engine decides who leads, which entries count and when; it has no thread, socket, file or clock. Its one
implementation is the package leveret-raft (native/raft), which a node without a cluster does not need."""

from __future__ import annotations

import enum
import importlib
from collections.abc import Sequence
from typing import Protocol

from leveret.errors import StartupError

MISSING = (
    "a cluster needs the package leveret-raft, which is not installed beside this Python; "
    "in a checkout, `make engine` builds it (with cargo: on Debian 13 `apt-get install cargo`, on Debian 12 "
    "`apt-get install cargo-web rustc-web`), or `pip install ./native/raft`; otherwise `pip install 'leveret[cluster]'`"
)

# A replica's id is never used again, so a node whose log was lost gets a new one.
_NODE_SHIFT = 32

Place = tuple[int, int]  # term and index; (0, 0) is none
Members = tuple[Sequence[int], Sequence[int]]  # voters, learners


def replica_id(node: int, serial: int) -> int:
    """The id of a node's replica: the node above, below a number that the node never gives twice within a group."""
    assert 0 < node < 1 << 30 and 0 <= serial < 1 << _NODE_SHIFT, f"node {node}, serial {serial}"
    return node << _NODE_SHIFT | serial


def node_of(replica: int) -> int:
    return replica >> _NODE_SHIFT


class EntryKind(enum.IntEnum):
    NORMAL = 0
    CONFIGURATION = 1


class Change(enum.IntEnum):
    """Of a group's members. A learner gets entries but has no vote; adding it as a voter promotes it."""

    ADD_VOTER = 0
    REMOVE = 1
    ADD_LEARNER = 2


class Ready(Protocol):
    """What all groups want done. First everything of it is written; then `frames` and `carriers` may be sent, because
    the engine keeps back what must wait for the disk until `persisted`."""

    @property
    def appends(self) -> list[tuple[int, int, int, int, bytes]]:
        """(group, index, term, kind, data): an entry takes the place of all from its index on."""

    @property
    def states(self) -> list[tuple[int, int, int, int]]:
        """(group, term, vote, commit)"""

    @property
    def installs(self) -> list[tuple[int, int, int, Members]]:
        """(group, index, term, members): the group's log begins anew above this index."""

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """(group, number): to be given to `persisted` once everything above is on disk."""

    @property
    def frames(self) -> dict[int, bytes]:
        """Messages without payloads, by node."""

    @property
    def carriers(self) -> list[tuple[int, int, int, list[Place], bytes]]:
        """(node, group, index of offered state or 0, (index, term) of payloads, frame): what something travels with."""

    @property
    def committed(self) -> list[tuple[int, int, int, int, bytes]]:
        """As `appends`: entries that count for ever, each once, in order."""

    @property
    def configurations(self) -> list[tuple[int, int, Members]]:
        """(group, index, members) after a committed change."""

    @property
    def roles(self) -> list[tuple[int, int, int, bool]]:
        """(group, leading replica or 0, term, whether that is the one here)"""

    @property
    def more(self) -> bool:
        """Whether another call has something to say at once."""


class Status(Protocol):
    """One group as this node sees it."""

    @property
    def replica(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def vote(self) -> int: ...
    @property
    def leader(self) -> int: ...
    @property
    def leads(self) -> bool: ...
    @property
    def role(self) -> str: ...
    @property
    def last(self) -> int: ...
    @property
    def committed(self) -> int: ...
    @property
    def applied(self) -> int: ...
    @property
    def floor(self) -> int: ...
    @property
    def floor_term(self) -> int: ...
    @property
    def floor_voters(self) -> list[int]: ...
    @property
    def floor_learners(self) -> list[int]: ...
    @property
    def voters(self) -> list[int]: ...
    @property
    def learners(self) -> list[int]: ...
    @property
    def progress(self) -> list[tuple[int, int, str, bool]]:
        """(replica, matched, probe | replicate | snapshot, heard of lately); empty unless this replica leads."""


class Engine(Protocol):
    """A ValueError is about the argument, which had no effect. EngineFailed of leveret_raft ends the node."""

    def add_group(
        self,
        group: int,
        replica: int,
        voters: Sequence[int],
        learners: Sequence[int],
        hard: tuple[int, int, int],
        floor: Place,
        entries: Sequence[tuple[int, int, int, bytes]],
        applied: int,
        timeout: int,
        heartbeat: int,
    ) -> None:
        """Voters and learners as of the floor, an (index, term); `hard` is (term, vote, commit); times are in ticks.
        The engine elects after `timeout` to twice as many."""

    def remove_group(self, group: int) -> bool: ...
    def groups(self) -> list[int]: ...
    def tick(self) -> None: ...
    def campaign(self, group: int) -> None: ...
    def propose(self, group: int, descriptor: bytes) -> Place: ...
    def propose_conf_change(self, group: int, kind: int, replica: int) -> Place: ...
    def transfer_leader(self, group: int, replica: int) -> bool: ...
    def open(self, sender: int, octets: bytes) -> tuple[int, int, list[tuple[int, int, int, bytes]]]: ...
    def step(self, sender: int, octets: bytes, opened: bool = False) -> int: ...
    def ready(self) -> Ready: ...
    def persisted(self, numbers: Sequence[tuple[int, int]]) -> dict[int, bytes]: ...
    def unreachable(self, node: int, group: int | None = None) -> None: ...
    def compact(self, group: int, index: int) -> tuple[int, int, Members]: ...
    def status(self, group: int) -> Status: ...


def make_engine(seed: int) -> Engine:
    """The engine of this node; its elections begin after times that the seed determines."""
    try:
        module = importlib.import_module("leveret_raft")
    except ImportError as error:
        raise StartupError(MISSING) from error
    engine: Engine = module.Engine(seed)
    return engine
