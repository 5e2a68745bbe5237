"""The headers of rows that become messages, as octets: those that a row has, and the two that name it.

Of the headers as JSON the same come again and again; they are kept as octets. None stands for a row whose headers have
to be looked at by themselves, see row_outgoing.py, which calls this."""

import cython

from leveret.core.client.header_text import headers_from_json
from leveret.core.codec.field_types import Int64
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.core.codec.tables import encode_table

if not cython.compiled:
    from leveret.core.codec.pure_octets import same_octets, take, write_u64
    from leveret.core.codec.tables import TEXT, VOID

NAME_MAX = NAME_OCTETS_MAX
# So many headers are remembered, if their JSON is no longer than this.
KNOWN_MAX, TEXT_BYTES_MAX = 1024, 1024
PRODUCER_HEADER, ID_HEADER = "x-producer-name", "x-publishing-id"
# Where a message was lies behind it: the next stream has offsets of its own.
FORGOTTEN = ("x-stream-offset", "x-stream-timestamp")
RESERVED = frozenset(name.encode() for name in (PRODUCER_HEADER, ID_HEADER, *FORGOTTEN))
# The names of ours, and the letters of what follows: a text, and 64 bits always, so that the same rows are the same
# octets.
NAME_FIELD = bytes((len(PRODUCER_HEADER),)) + PRODUCER_HEADER.encode() + b"S"
ID_FIELD = bytes((len(ID_HEADER),)) + ID_HEADER.encode() + b"l"


class RowHeaders:
    """A row has this producer's name, and its number for an id, unless its columns say otherwise."""

    def __init__(self, producer):
        self.producer = producer
        self.known = {}
        # What was written last, all but the publishing id at its end, and for what.
        self.last_fields = None
        self.last_name = None
        self.last = None

    def take_columns(self, columns):
        self.producers = columns.get("producer_name")
        self.publishing_ids = columns.get("publishing_id")
        self.texts = columns.get("headers_json")
        self.pairs = columns.get("headers")
        return 0

    def table(self, row):
        """The fields of a row's headers table, without the length before them."""
        name = self.producer
        if self.producers is not None and not self.producers.is_null(row):
            start = self.producers.start(row)
            end = self.producers.start(row + 1)
            name = self.last_name
            size = end - start
            # Mostly that of the row before.
            if name is None or len(name) != size or not same_octets(self.producers.p, start, name, 0, size):
                name = take(self.producers.p, start, end)
        if len(name) == 0 or len(name) > NAME_MAX:
            return None
        publishing_id = row
        if self.publishing_ids is not None and not self.publishing_ids.is_null(row):
            publishing_id = self.publishing_ids.value(row)
        if publishing_id < 0:
            return None
        if self.texts is not None and not self.texts.is_null(row):
            return self.from_text(row, name, publishing_id)
        fields = b""
        if self.pairs is not None and not self.pairs.ends.is_null(row):
            fields = self.from_pairs(row)
            if fields is None:
                return None
        return self.stamp(fields, name, publishing_id)

    def from_text(self, row, name, publishing_id):
        text = take(self.texts.p, self.texts.start(row), self.texts.start(row + 1))
        fields = self.known.get(text)
        if fields is not None:
            return self.stamp(fields, name, publishing_id)
        try:
            headers = headers_from_json(text.decode())
            for forgotten in FORGOTTEN:
                headers.pop(forgotten, None)
            if PRODUCER_HEADER in headers or ID_HEADER in headers:
                # A row that was published like this before: each stays in its place.
                headers[PRODUCER_HEADER] = name.decode()
                headers[ID_HEADER] = Int64(publishing_id)
                return encode_table(headers)[4:]
            fields = encode_table(headers)[4:]
        except (TypeError, ValueError):
            return None
        if len(text) <= TEXT_BYTES_MAX:
            if len(self.known) >= KNOWN_MAX:
                self.known.clear()
            self.known[text] = fields
        return self.stamp(fields, name, publishing_id)

    def from_pairs(self, row):
        names = self.pairs.names
        values = self.pairs.values
        out = bytearray()
        seen = set()
        for place in range(self.pairs.ends.start(row), self.pairs.ends.start(row + 1)):
            name = take(names.p, names.start(place), names.start(place + 1))
            if len(name) > NAME_MAX or name in RESERVED or name in seen:
                return None
            seen.add(name)
            out.append(len(name))
            out += name
            if values.is_null(place):
                out.append(VOID)
                continue
            start = values.start(place)
            end = values.start(place + 1)
            out.append(TEXT)
            out += size_of(end - start)
            out += take(values.p, start, end)
        return bytes(out)

    def stamp(self, fields, name, publishing_id):
        if fields is not self.last_fields or name is not self.last_name:
            self.last_fields = fields
            self.last_name = name
            self.last = bytearray(fields + NAME_FIELD + size_of(len(name)) + name + ID_FIELD + bytes(8))
        p = self.last
        size = len(self.last)
        write_u64(p, size - 8, publishing_id)
        return take(p, 0, size)


def size_of(size):
    """As it stands before a long string."""
    return size.to_bytes(4, "big")
