"""Many messages at a time, for connectors: deliveries that become columns, and columns that become messages.

Everything that such a connector needs of the compiled core is exported here, so that it imports neither the core nor
the wire: rows (columns of deliveries), cells (columns of others, without a copy), messages as they are sent, headers
as text. `range_reader`, `queue_taker` and `run_publisher` do what is to be done over a connection."""

from leveret.core.client.cells import NumberCells, OctetCells, PairCells
from leveret.core.client.delivery import Delivery
from leveret.core.client.header_text import headers_from_json, headers_to_json, value_text
from leveret.core.client.outgoing import MANDATORY, Outgoing
from leveret.core.client.row_headers import FORGOTTEN, ID_HEADER, PRODUCER_HEADER, RowHeaders
from leveret.core.client.row_outgoing import RowOutgoing
from leveret.core.client.rows import DEATH_COUNT, DEATHS, Rows
from leveret.core.codec.field_types import Int64, Timestamp

__all__ = [
    "DEATHS",
    "DEATH_COUNT",
    "FORGOTTEN",
    "ID_HEADER",
    "MANDATORY",
    "PRODUCER_HEADER",
    "Delivery",
    "Int64",
    "NumberCells",
    "OctetCells",
    "Outgoing",
    "PairCells",
    "RowHeaders",
    "RowOutgoing",
    "Rows",
    "Timestamp",
    "headers_from_json",
    "headers_to_json",
    "value_text",
]
