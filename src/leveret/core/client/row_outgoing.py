"""Rows of a table as messages on their way: address, properties and body of each, written from the columns' octets.

Only rows that are as they should be: None stands for one that has to be looked at by itself, because a value is missing
or such as no message can have. Whoever asks has another, slower way for those, which must come to the same octets for
the others. Called by Spark's sink for each batch."""

import cython

from leveret.core.codec.names import NAME_OCTETS_MAX

if not cython.compiled:
    from leveret.core.client.outgoing import make_outgoing
    from leveret.core.codec.buffers import grow
    from leveret.core.codec.properties import PROPERTY_BITS
    from leveret.core.codec.pure_octets import copy_octets, same_octets, take, write_u16, write_u32, write_u64

    CONTENT_TYPE, CONTENT_ENCODING = PROPERTY_BITS["content_type"], PROPERTY_BITS["content_encoding"]
    HEADERS, DELIVERY_MODE, PRIORITY = (PROPERTY_BITS[name] for name in ("headers", "delivery_mode", "priority"))
    CORRELATION_ID, REPLY_TO = PROPERTY_BITS["correlation_id"], PROPERTY_BITS["reply_to"]
    EXPIRATION, MESSAGE_ID = PROPERTY_BITS["expiration"], PROPERTY_BITS["message_id"]
    TIMESTAMP, TYPE = PROPERTY_BITS["timestamp"], PROPERTY_BITS["type"]
    USER_ID, APP_ID = PROPERTY_BITS["user_id"], PROPERTY_BITS["app_id"]

SHORT_MAX = NAME_OCTETS_MAX
# All that a row has beside its headers is less than this: texts of 256 octets, flags and numbers.
SHORTS_BYTES = 4096
MICROSECONDS = 1000000
# Beyond this a moment is no whole number of microseconds as a float, which is what it is for others.
MOMENT_MAX = 1 << 52


class RowOutgoing:
    """What a row does not say is as it is given here, None or below 0 if it is nothing. `headers` writes the table."""

    def __init__(
        self,
        exchange: "bytes | None",
        routing_key: "bytes | None",
        content_type,
        mode,
        priority,
        bits,
        id_prefix,
        headers,
    ):
        self.exchange = exchange
        self.routing_key = routing_key
        self.content_type = content_type
        self.mode = mode
        self.priority = priority
        self.bits = bits
        # Before the number of a row that has no message id.
        self.id_prefix = id_prefix
        self.headers = headers
        # The address of the row before.
        self.address = b""
        self.scratch = bytearray(SHORTS_BYTES)
        self.p = self.scratch
        self.at = 0
        self.flags = 0

    def rename(self, producer, id_prefix):
        """Gives the rows to come another producer's name, and other message ids."""
        self.headers.producer = producer
        self.id_prefix = id_prefix
        return 0

    def make(self, columns, rows):
        """A message or None for each row of a table with these columns, by name."""
        self.bodies = columns["body"]
        self.exchanges = columns.get("exchange")
        self.routing_keys = columns.get("routing_key")
        self.content_types = columns.get("content_type")
        self.content_encodings = columns.get("content_encoding")
        self.correlation_ids = columns.get("correlation_id")
        self.reply_tos = columns.get("reply_to")
        self.expirations = columns.get("expiration")
        self.message_ids = columns.get("message_id")
        self.types = columns.get("type")
        self.user_ids = columns.get("user_id")
        self.app_ids = columns.get("app_id")
        self.delivery_modes = columns.get("delivery_mode")
        self.priorities = columns.get("priority")
        self.moments = columns.get("message_timestamp")
        self.headers.take_columns(columns)
        return [self.make_row(row) for row in range(rows)]

    def make_row(self, row):
        if self.bodies.is_null(row) or not self.find_address(row):
            return None
        table = self.headers.table(row)
        if table is None:
            return None
        if len(table) + SHORTS_BYTES > len(self.scratch):
            self.scratch = grow(self.scratch, 0, len(table) + SHORTS_BYTES)
            self.p = self.scratch
        self.at = 2
        self.flags = HEADERS
        # In this order they stand on the wire.
        if self.content_types is not None and not self.content_types.is_null(row):
            if not self.put_text(self.content_types, row, CONTENT_TYPE):
                return None
        elif self.content_type is not None:
            self.put_name(None, row, self.content_type)
            self.flags |= CONTENT_TYPE
        if not self.put_text(self.content_encodings, row, CONTENT_ENCODING):
            return None
        self.put_table(table)
        if not (
            self.put_numbers(row)
            and self.put_text(self.correlation_ids, row, CORRELATION_ID)
            and self.put_text(self.reply_tos, row, REPLY_TO)
            and self.is_number(self.expirations, row)
            and self.put_text(self.expirations, row, EXPIRATION)
        ):
            return None
        message_id = self.put_message_id(row)
        if message_id is None or not (
            self.put_moment(row)
            and self.put_text(self.types, row, TYPE)
            and self.put_text(self.user_ids, row, USER_ID)
            and self.put_text(self.app_ids, row, APP_ID)
        ):
            return None
        write_u16(self.p, 0, self.flags)
        start = self.bodies.start(row)
        body = take(self.bodies.p, start, self.bodies.start(row + 1))
        return make_outgoing(self.address, take(self.p, 0, self.at), body, message_id, self.bits)

    # ---- where it goes

    def find_address(self, row):
        self.at = 0
        if not self.put_name(self.exchanges, row, self.exchange):
            return False
        if not self.put_name(self.routing_keys, row, self.routing_key):
            return False
        same = self.address
        if self.at != len(self.address) or not same_octets(self.p, 0, same, 0, self.at):
            self.address = take(self.p, 0, self.at)
        return True

    def put_name(self, cells, row, default):
        """A short string, or the default; false if there is none, or it is too long."""
        if cells is not None and not cells.is_null(row):
            start = cells.start(row)
            size = cells.start(row + 1) - start
            if size > SHORT_MAX:
                return False
            copy_octets(self.p, self.at + 1, cells.p, start, size)
        elif default is not None:
            size = len(default)
            source = default
            copy_octets(self.p, self.at + 1, source, 0, size)
        else:
            return False
        self.p[self.at] = size
        self.at += 1 + size
        return True

    # ---- its properties

    def put_text(self, cells, row, bit):
        """False if it is too long."""
        if cells is None or cells.is_null(row):
            return True
        start = cells.start(row)
        size = cells.start(row + 1) - start
        if size > SHORT_MAX:
            return False
        self.p[self.at] = size
        copy_octets(self.p, self.at + 1, cells.p, start, size)
        self.at += 1 + size
        self.flags |= bit
        return True

    def put_table(self, table):
        size = len(table)
        source = table
        write_u32(self.p, self.at, size)
        copy_octets(self.p, self.at + 4, source, 0, size)
        self.at += 4 + size
        return 0

    def put_numbers(self, row):
        """Delivery mode and priority."""
        value = self.mode
        if self.delivery_modes is not None and not self.delivery_modes.is_null(row):
            value = self.delivery_modes.value(row)
            if value != 1 and value != 2:
                return False
        self.p[self.at] = value
        self.at += 1
        self.flags |= DELIVERY_MODE
        value = self.priority
        if self.priorities is not None and not self.priorities.is_null(row):
            value = self.priorities.value(row)
            if value < 0 or value > 255:
                return False
        if value >= 0:
            self.p[self.at] = value
            self.at += 1
            self.flags |= PRIORITY
        return True

    def is_number(self, cells, row):
        """Whether it is digits alone, if it is there."""
        if cells is None or cells.is_null(row):
            return True
        start = cells.start(row)
        end = cells.start(row + 1)
        for i in range(start, end):
            if cells.p[i] < 48 or cells.p[i] > 57:
                return False
        return end > start

    def put_message_id(self, row):
        """The message id, which is in its place then; None if it is too long. An empty one, which some publish, is
        none."""
        self.flags |= MESSAGE_ID
        start = self.at
        if self.message_ids is not None and not self.message_ids.is_null(row):
            if not self.put_text(self.message_ids, row, MESSAGE_ID):
                return None
            if self.at > start + 1:
                return take(self.p, start + 1, self.at)
            self.at = start
        size = len(self.id_prefix)
        digits = 1
        left = row // 10
        while left > 0:
            digits += 1
            left //= 10
        if size + digits > SHORT_MAX:
            return None
        source = self.id_prefix
        self.p[start] = size + digits
        copy_octets(self.p, start + 1, source, 0, size)
        self.at = start + 1 + size + digits
        left = row
        for i in range(digits):
            self.p[self.at - 1 - i] = 48 + left % 10
            left //= 10
        return take(self.p, start + 1, self.at)

    def put_moment(self, row):
        """Microseconds become whole seconds."""
        if self.moments is None or self.moments.is_null(row):
            return True
        value = self.moments.value(row)
        if value < 0 or value >= MOMENT_MAX:
            return False
        write_u64(self.p, self.at, value // MICROSECONDS)
        self.at += 8
        self.flags |= TIMESTAMP
        return True
