"""What shovels and federation links moved, and the state they are in."""

from __future__ import annotations

from typing import Final

from leveret.broker.link_status import STATES
from leveret.management.metrics.exposition import Family
from leveret.management.metrics.source import Source

COUNTERS: Final = {
    "forwarded": ("leveret_link_messages_forwarded_total", "Messages that a link published at its destination"),
    "forwarded_bytes": ("leveret_link_bytes_forwarded_total", "Octets of their bodies"),
    "confirmed": ("leveret_link_messages_confirmed_total", "Messages that the destination confirmed to a link"),
    "dropped": ("leveret_link_messages_dropped_total", "Messages that a link dropped because they would loop"),
    "refused": ("leveret_link_messages_refused_total", "Messages that the destination refused, each try counted"),
    "reconnects": ("leveret_link_reconnects_total", "Attempts of a link to connect again"),
}


def links(source: Source) -> list[Family]:
    if source.links is None:
        return []
    state = Family("leveret_link_state", "gauge", "1 for the state that a link is in")
    flying = Family("leveret_link_messages_in_flight", "gauge", "Messages that wait for the destination's confirm")
    lag = Family("leveret_link_messages_waiting", "gauge", "Messages that wait at a source in this broker")
    counted = {field: Family(name, "counter", text) for field, (name, text) in COUNTERS.items()}
    for kind, found in (("shovel", source.links.shovels()), ("federation", source.links.federation())):
        for one in found:
            labels = (("kind", kind), ("vhost", one.vhost), ("link", one.name))
            for name in STATES:
                state.add(int(one.state == name), (*labels, ("state", name)))
            flying.add(one.in_flight, labels)
            if one.lag is not None:
                lag.add(one.lag, labels)
            for field, family in counted.items():
                family.add(getattr(one.counters, field), labels)
    return [state, flying, lag, *counted.values()]
