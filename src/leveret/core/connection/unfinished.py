"""The budget of what has come of messages that no queue has yet: bodies that are not complete, frames of the stream
protocol that are not, and transactions that are not committed.

Counts octets as they come, never by what was announced. Each connection has an account, all accounts have one total.
What does not fit into a connection's budget is refused with 406, because nothing else that comes on the same socket
could make room; what does not fit into the node's is the total's guardian to decide. Called by the publish path for
bodies of more than one frame and for messages of transactions only, and by connections of streams for the rest of a
chunk."""

import cython

from leveret.errors import SoftError

if not cython.compiled:
    from leveret.core.codec.method_ids import PUBLISH

# What a message of a transaction takes beside its octets.
MESSAGE_BYTES = 256


class UnfinishedTotal:
    def __init__(self):
        self.held = 0
        # Of all connections, and of each; 0 for no limit.
        self.held_max = 0
        self.connection_held_max = 0
        # Called with the account that grew when there is too much; may raise the error that ends its connection.
        self.guardian = None


class Unfinished:
    def __init__(self, total):
        self.total = total
        self.held = 0

    def take(self, size):
        total = self.total
        if total.connection_held_max > 0 and self.held + size > total.connection_held_max:
            raise SoftError(
                406,
                f"unfinished messages of this connection are larger than {total.connection_held_max} bytes",
                PUBLISH,
            )
        return self.hold(size)

    def hold(self, size):
        """The same for what another limit bounds for a connection: a frame of the stream protocol."""
        total = self.total
        self.held += size
        total.held += size
        if total.held_max > 0 and total.held > total.held_max and total.guardian is not None:
            try:
                total.guardian(self)
            except BaseException:
                self.give(size)
                raise
        return 0

    def give(self, size):
        self.held -= size
        self.total.held -= size
        return 0
