"""Topology: what an application needs on the broker, declared from code or a file, kept, and declared again after a
reconnect."""

from leveret.client.topology.conflict import TopologyConflict
from leveret.client.topology.diff import Diff, Difference
from leveret.client.topology.diff_live import ManagementFailed
from leveret.client.topology.files import InvalidTopology, dump_topology, parse_topology, read_topology
from leveret.client.topology.handle import QueueCounts, QueueHandle
from leveret.client.topology.manager import Topology
from leveret.client.topology.records import Binding, Exchange, Queue
from leveret.client.topology.recovery import RecoveryFailure, RecoveryReport, TopologyIncomplete
from leveret.client.topology.retry import Retry, Step, retry_count

__all__ = [
    "Binding",
    "Diff",
    "Difference",
    "Exchange",
    "InvalidTopology",
    "ManagementFailed",
    "Queue",
    "QueueCounts",
    "QueueHandle",
    "RecoveryFailure",
    "RecoveryReport",
    "Retry",
    "Step",
    "Topology",
    "TopologyConflict",
    "TopologyIncomplete",
    "dump_topology",
    "parse_topology",
    "read_topology",
    "retry_count",
]
