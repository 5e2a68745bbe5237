"""What a stream remembers beside its messages: the last publishing id of every producer that gave itself a name, and
how far every consumer with a name has come.

Changes gather here and go into the stream's log with the batch that they belong to, so that a message and its
producer's id are on disk together or not at all. An item in the log:

    0  u8   1 a producer, 2 a consumer     1  u8  octets of the name     2  u64  id or offset     10  the name

With kind 3 an item says where the part belongs: 2 the sequence of the first record that its batch has in the node's
log, 10 that up to which the log was synced before.

Neither an id nor an offset is ever as high as the highest number: that says that the name is to be forgotten."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import copy_octets, read_u64, take, write_u64

    PRODUCER = 1
    CONSUMER = 2
    BATCH = 3
    ITEM_BYTES = 10
    BATCH_ITEM_BYTES = 18
    ALONE = 0
    MORE = 1
    LOGGED = 2

FORGOTTEN = 0xFFFFFFFFFFFFFFFF
# Of each; the one that changed longest ago is forgotten for a new one.
NAMES_MAX = 10000
# Names that are equal up to their last "#" are a group. A new name of a group takes the place of the oldest of its
# group, if that is among so many of the oldest names: a writer with many names does not push out those of others.
GROUP_MARK = b"#"
GROUP_LOOK_MAX = 1000


class Tracking:
    __slots__ = ("changed_consumers", "changed_producers", "consumers", "producers")

    def __init__(self):
        # By name, that which changed last at the end.
        self.producers = {}
        self.consumers = {}
        # Since the last batch.
        self.changed_producers = {}
        self.changed_consumers = {}

    def is_changed(self):
        return len(self.changed_producers) > 0 or len(self.changed_consumers) > 0

    def take_id(self, producer, publishing_id):
        """Whether the producer has not published this id yet, nor a higher one; from now on it has."""
        last = self.producers.get(producer)
        if last is not None:
            if publishing_id <= last:
                return False
            del self.producers[producer]
        elif len(self.producers) >= NAMES_MAX:
            forget_oldest(self.producers, self.changed_producers, producer)
        self.producers[producer] = publishing_id
        # In the order of the changes, so that what is read back has the order of what was written.
        self.changed_producers.pop(producer, None)
        self.changed_producers[producer] = publishing_id
        return True

    def store_offset(self, consumer, offset):
        if self.consumers.pop(consumer, None) is None and len(self.consumers) >= NAMES_MAX:
            forget_oldest(self.consumers, self.changed_consumers, consumer)
        self.consumers[consumer] = offset
        self.changed_consumers.pop(consumer, None)
        self.changed_consumers[consumer] = offset

    def forget_offset(self, consumer):
        """Whether there was something to forget."""
        if self.consumers.pop(consumer, None) is None:
            return False
        self.changed_consumers[consumer] = FORGOTTEN
        return True

    def producers_with(self, prefix):
        """The last ids of producers whose names begin so, by name."""
        return {name: last for name, last in self.producers.items() if name.startswith(prefix)}

    def changed_size(self):
        """Octets that the changes will take."""
        return items_size(self.changed_producers) + items_size(self.changed_consumers)

    def whole_size(self):
        return items_size(self.producers) + items_size(self.consumers)

    def write_changed(self, p, at):
        """Writes what changed, and where it ends."""
        at = write_items(p, at, self.changed_producers, PRODUCER)
        at = write_items(p, at, self.changed_consumers, CONSUMER)
        self.changed_producers.clear()
        self.changed_consumers.clear()
        return at

    def write_whole(self, p, at):
        at = write_items(p, at, self.producers, PRODUCER)
        return write_items(p, at, self.consumers, CONSUMER)

    def read(self, data, at, end, whole):
        """Takes in what write_changed or write_whole wrote."""
        p = data
        if whole:
            self.producers.clear()
            self.consumers.clear()
        while end - at >= ITEM_BYTES:
            name_end = at + ITEM_BYTES + p[at + 1]
            if name_end > end:
                break
            if p[at] == BATCH:
                at = name_end
                continue
            name = take(p, at + ITEM_BYTES, name_end)
            items = self.producers if p[at] == PRODUCER else self.consumers
            items.pop(name, None)
            value = read_u64(p, at + 2)
            at = name_end
            if value == FORGOTTEN:
                continue
            items[name] = value
        # An older log does not say which names were forgotten for new ones.
        for items in (self.producers, self.consumers):
            while len(items) > NAMES_MAX:
                del items[next(iter(items))]
        return 0

    def encode(self):
        """All of it as octets."""
        data = bytearray(self.whole_size())
        p = data
        self.write_whole(p, 0)
        return bytes(data)


def forget_oldest(items, changed, name):
    oldest = oldest_for(items, name)
    del items[oldest]
    changed.pop(oldest, None)
    changed[oldest] = FORGOTTEN


def oldest_for(items, name):
    """The one that a new name takes the place of."""
    end = name.rfind(GROUP_MARK)
    if end >= 0:
        group = name[: end + 1]
        looked = 0
        for other in items:
            if other.startswith(group):
                return other
            looked += 1
            if looked >= GROUP_LOOK_MAX:
                break
    return next(iter(items))


def items_size(items):
    size = 0
    for name in items:
        size += ITEM_BYTES + len(name)
    return size


def write_batch(p, at, first_sequence, synced_sequence):
    """Writes the item that says which batch of the node's log the part belongs to, and where it ends."""
    p[at] = BATCH
    p[at + 1] = BATCH_ITEM_BYTES - ITEM_BYTES
    write_u64(p, at + 2, first_sequence)
    write_u64(p, at + ITEM_BYTES, synced_sequence)
    return at + BATCH_ITEM_BYTES


def write_items(p, at, items, kind):
    for name, value in items.items():
        p[at] = kind
        p[at + 1] = len(name)
        write_u64(p, at + 2, value)
        source = name
        copy_octets(p, at + ITEM_BYTES, source, 0, len(name))
        at += ITEM_BYTES + len(name)
    return at
