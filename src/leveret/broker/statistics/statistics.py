"""What operators ask: the node's totals, the numbers of one object, and how they went lately."""

from __future__ import annotations

from leveret.broker.broker import Broker
from leveret.broker.statistics.totals import Totals, totals_of


class Statistics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def totals(self) -> Totals:
        """Computed now: cheap, but not for each message."""
        return totals_of(self._broker)
