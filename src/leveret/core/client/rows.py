"""Deliveries of a stream as rows of a table: whole bunches at a time, into columns with Arrow's layout.

A `Rows` makes only the columns that are wanted and passes over messages whose routing key is not. Never settles what it
takes: whoever reads the stream says how far it is."""

import cython

from leveret.core.client.columns import NumberColumn, OctetColumn
from leveret.core.client.header_text import headers_to_json, value_text

if not cython.compiled:
    from leveret.core.codec.properties import DELIVERY_MODE, HEADERS, PRIORITY, TIMESTAMP
    from leveret.core.codec.pure_octets import read_u64, same_octets
    from leveret.core.codec.tables import INT64, TEXT, _find_value_end, _read_value

# Texts among the properties, by the bits that say whether they are there.
TEXTS = {
    "content_type": 0x8000,
    "content_encoding": 0x4000,
    "correlation_id": 0x0400,
    "reply_to": 0x0200,
    "expiration": 0x0100,
    "message_id": 0x0080,
    "type": 0x0020,
    "user_id": 0x0010,
    "app_id": 0x0008,
    "cluster_id": 0x0004,
}
NUMBERS = ("offset", "timestamp", "delivery_mode", "priority", "message_timestamp")
# What dead-lettering has written into the headers: column, header.
DEATHS = {
    "first_death_reason": "x-first-death-reason",
    "first_death_queue": "x-first-death-queue",
    "first_death_exchange": "x-first-death-exchange",
    "last_death_reason": "x-last-death-reason",
    "last_death_queue": "x-last-death-queue",
    "last_death_exchange": "x-last-death-exchange",
}
DEATH_COUNT = "death_count"
OFFSET_NAME = b"x-stream-offset"
STAMP_NAME = b"x-stream-timestamp"
MICROSECONDS = 1000000
# The last second of the year 9999, which is the last one that Python has: a publisher who means a later one counts in
# other units.
SECONDS_MAX = 253402300799


class Rows:
    def __init__(self, wanted):
        """`wanted` names columns: `offset`, `body`, `headers` and so on; others are not ours and are left out."""
        # Deliveries of a queue have no offset: with this they have their number on the channel instead.
        self.by_tag = False
        # Whether the broker was asked for moments. If not, a header of that name is the publisher's like any other.
        self.stamped = True
        self.count = 0
        # Octets of bodies and properties, which is what a bunch weighs.
        self.octets = 0
        # Octets of the bodies that were taken since this was set to 0, wanted or not: what a prefetch counts.
        self.taken_octets = 0
        # The delivery that was taken last, for whoever settles what was.
        self.last = None
        # How far it is: behind the last message that was taken or passed over.
        self.next_offset = 0
        # The first stretch of offsets that did not come: from here up to there, and both 0 if there is none.
        self.gap_start = self.gap_end = 0
        self.offset = 0
        self.stamp = 0
        self.has_stamp = self.has_others = False
        # Routing keys as octets, and what they may begin with; all are wanted if both are None.
        self.keys = None
        self.key_prefixes = None
        self.body = OctetColumn() if "body" in wanted else None
        self.exchange = OctetColumn() if "exchange" in wanted else None
        self.routing_key = OctetColumn() if "routing_key" in wanted else None
        # By the number of their bit from above; None where nobody wants them.
        self.texts = [None] * 16
        for name, bit in TEXTS.items():
            if name in wanted:
                self.texts[16 - bit.bit_length()] = OctetColumn()
        numbers = [NumberColumn() if name in wanted else None for name in NUMBERS]
        self.offsets, self.stamps, self.delivery_mode, self.priority, self.message_timestamp = numbers
        self.header_ends = self.header_names = self.header_values = None
        if "headers" in wanted:
            # Where each row's headers end among all of them.
            self.header_ends, self.header_names, self.header_values = OctetColumn(), OctetColumn(), OctetColumn()
        self.header_json = OctetColumn() if "headers_json" in wanted else None
        self.deaths = {name: OctetColumn() for name in DEATHS if name in wanted}
        self.death_count = NumberColumn() if DEATH_COUNT in wanted else None
        self.wants_deaths = bool(self.deaths) or self.death_count is not None

    def gather(self, items, rows_max, bytes_max, stop):
        """Takes deliveries from the front of `items` until there are enough rows or octets, or one at `stop` or behind
        it comes; how many it took. What was taken before is passed over."""
        taken = 0
        while items and self.count < rows_max and self.octets < bytes_max:
            delivery = items[0]
            self.look(delivery)
            if self.offset >= stop:
                break
            items.popleft()
            taken += 1
            self.taken_octets += len(delivery.body)
            self.last = delivery
            if self.offset < self.next_offset:
                continue
            if self.offset > self.next_offset and self.gap_end == 0:
                self.gap_start = self.next_offset
                self.gap_end = self.offset
            self.next_offset = self.offset + 1
            if (self.keys is None and self.key_prefixes is None) or self.wants(delivery._address):
                self.add(delivery)
        return taken

    def wants(self, address):
        key = address[2 + address[0] :]
        if self.keys is not None and key not in self.keys:
            return False
        return self.key_prefixes is None or key.startswith(self.key_prefixes)

    def look(self, delivery):
        """Reads what the broker has put into the headers: offset and moment; and whether there are others."""
        self.offset = 0
        self.has_stamp = self.has_others = False
        properties = delivery.properties
        found = False
        p = properties.raw
        at = properties.headers_at
        end = properties.headers_end
        while at < end:
            size = p[at]
            value_at = at + 1 + size
            if size == 15 and not self.by_tag and p[value_at] == INT64 and same_octets(p, at + 1, OFFSET_NAME, 0, 15):
                self.offset = read_u64(p, value_at + 1)
                found = True
            elif size == 18 and self.stamped and p[value_at] == INT64 and same_octets(p, at + 1, STAMP_NAME, 0, 18):
                self.stamp = read_u64(p, value_at + 1)
                self.has_stamp = True
            else:
                self.has_others = True
            at = _find_value_end(p, value_at, end)
        if self.by_tag:
            self.offset = delivery.delivery_tag
        elif not found:
            raise ValueError("a delivery has no x-stream-offset: is this queue a stream?")
        return 0

    def add(self, delivery):
        """The delivery that was looked at last is the next row."""
        body = delivery.body
        p = body
        self.octets += len(body) + len(delivery.properties.raw)
        self.count += 1
        if self.body is not None:
            self.body.put(p, 0, len(body))
        if self.offsets is not None:
            self.offsets.put(self.offset)
        if self.stamps is not None:
            if self.has_stamp:
                self.stamps.put(1000 * self.stamp)
            else:
                self.stamps.put_null()
        address = delivery._address
        p = address
        size = p[0]
        if self.exchange is not None:
            self.exchange.put_text(p, 1, 1 + size)
        if self.routing_key is not None:
            self.routing_key.put_text(p, 2 + size, len(address))
        self.add_properties(delivery.properties)
        if self.header_ends is not None or self.header_json is not None or self.wants_deaths:
            self.add_headers(delivery.properties)
        return 0

    def add_properties(self, properties):
        p = properties.raw
        flags = properties.flags
        at = 2
        for number in range(14):
            bit = 0x8000 >> number
            if bit == HEADERS:
                if flags & HEADERS:
                    at = properties.headers_end
            elif bit == DELIVERY_MODE:
                if self.delivery_mode is not None:
                    self.put_number(self.delivery_mode, flags & bit, p[at] if flags & bit else 0)
                if flags & bit:
                    at += 1
            elif bit == PRIORITY:
                if self.priority is not None:
                    self.put_number(self.priority, flags & bit, p[at] if flags & bit else 0)
                if flags & bit:
                    at += 1
            elif bit == TIMESTAMP:
                if self.message_timestamp is not None:
                    self.put_moment(flags & bit, read_u64(p, at) if flags & bit else 0)
                if flags & bit:
                    at += 8
            else:
                column = self.texts[number]
                if flags & bit:
                    if column is not None:
                        column.put_text(p, at + 1, at + 1 + p[at])
                    at += 1 + p[at]
                elif column is not None:
                    column.put_null()
        return 0

    def put_number(self, column, present, value):
        if present:
            return column.put(value)
        return column.put_null()

    def put_moment(self, present, seconds):
        if present and seconds <= SECONDS_MAX:
            return self.message_timestamp.put(seconds * MICROSECONDS)
        return self.message_timestamp.put_null()

    def add_headers(self, properties):
        if not self.has_others:
            if self.header_ends is not None:
                self.header_ends.put_null()
            if self.header_json is not None:
                self.header_json.put_null()
            if self.wants_deaths:
                self.add_deaths({})
            return 0
        if self.header_ends is not None:
            self.add_header_fields(properties)
        if self.header_json is not None or self.wants_deaths:
            headers = properties.headers()
            if self.wants_deaths:
                self.add_deaths(headers)
            if self.header_json is not None:
                others = {name: value for name, value in headers.items() if not self.is_ours(name.encode())}
                self.header_json.put_octets(headers_to_json(others).encode())
        return 0

    def is_ours(self, name):
        """Whether the broker has put the header there, and not the publisher."""
        return (name == OFFSET_NAME and not self.by_tag) or (name == STAMP_NAME and self.stamped)

    def add_header_fields(self, properties):
        p = properties.raw
        at = properties.headers_at
        end = properties.headers_end
        seen = set()
        while at < end:
            value_at = at + 1 + p[at]
            value_end = _find_value_end(p, value_at, end)
            name = p[at + 1 : value_at]
            # Of two fields with one name the first counts.
            if name not in seen and not self.is_ours(name):
                seen.add(name)
                self.header_names.put_text(p, at + 1, value_at)
                if p[value_at] == TEXT:
                    self.header_values.put_text(p, value_at + 5, value_end)
                else:
                    text = value_text(_read_value(p, value_at, value_end, 0))
                    if text is None:
                        self.header_values.put_null()
                    else:
                        self.header_values.put_octets(text.encode("utf-8", "replace"))
            at = value_end
        self.header_ends.presence.note(True)
        return self.note_header_end()

    def note_header_end(self):
        # The size of an octet column that holds nothing counts headers here.
        self.header_ends.size = self.header_names.presence.rows
        return self.header_ends.note_end()

    def add_deaths(self, headers):
        for name, column in self.deaths.items():
            value = headers.get(DEATHS[name])
            if isinstance(value, str):
                column.put_octets(value.encode("utf-8", "replace"))
            else:
                column.put_null()
        if self.death_count is not None:
            deaths = headers.get("x-death")
            if isinstance(deaths, list):
                counts = [death.get("count") for death in deaths if isinstance(death, dict)]
                self.death_count.put(sum(count for count in counts if isinstance(count, int) and 0 < count < 1 << 40))
            else:
                self.death_count.put_null()
        return 0

    def take(self):
        """The columns so far by name, as `take` of each gives them, and how many rows they have; begins anew. Headers
        are (rows, nulls, bitmap, ends, names, values)."""
        found = {}
        singles = {
            "body": self.body,
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "offset": self.offsets,
            "timestamp": self.stamps,
            "delivery_mode": self.delivery_mode,
            "priority": self.priority,
            "message_timestamp": self.message_timestamp,
            "headers_json": self.header_json,
            "death_count": self.death_count,
        }
        for name, bit in TEXTS.items():
            singles[name] = self.texts[16 - bit.bit_length()]
        singles.update(self.deaths)
        for name, column in singles.items():
            if column is not None:
                found[name] = column.take()
        if self.header_ends is not None:
            self.header_ends.size = 0
            found["headers"] = (*self.header_ends.take()[:4], self.header_names.take(), self.header_values.take())
        rows = self.count
        self.count = 0
        self.octets = 0
        return rows, found
