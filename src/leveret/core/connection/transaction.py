"""What a transaction holds until it is committed: how much that may be, and whether it can take effect as a whole.

Published messages are (message, exchange, targets, mandatory), in the order in which they came. Called by the publish
path and by the channel, whose acknowledgements a transaction holds as well."""

import cython

from leveret.core.queue.dedup import digest_of
from leveret.errors import SoftError

if not cython.compiled:
    from leveret.core.log.records import record_bytes

    # A transaction takes effect in one step, so that all of it is in one batch of the log and nobody sees a part; what
    # that step costs is counted when something is added. Each is about a microsecond at most: a message, a copy of it
    # for a queue, an acknowledgement, so many octets (as a power of two) for a log.
    WORK_OCTETS_SHIFT = 10


def too_much_work(method, work_max):
    text = f"the transaction would be larger than limits.transaction_work_max ({work_max}); commit more often"
    return SoftError(406, text, method)


def work_of(message, targets):
    """What the commit has to do for a message."""
    work = 1 + len(targets)
    if message.properties.persistent:
        return work + (record_bytes(message, len(targets)) >> WORK_OCTETS_SHIFT)
    for queue in targets:
        if queue.ack_only:
            # A stream, which keeps whatever comes.
            return work + (record_bytes(message, 1) >> WORK_OCTETS_SHIFT)
    return work


def refusing(pending, now):
    """The queue that will not take what is published, asked for all of it at once; None if all will."""
    coming = {}
    for message, exchange, targets, _ in pending:
        if exchange.window is not None:
            digest = digest_of(message.properties)
            if digest is not None and exchange.window.knows(digest, now):
                continue
        for queue in targets:
            if not queue.deleted and not queue.prepare(message, coming):
                return queue
    return None


def logged_bytes(pending):
    """What the log needs for it at most."""
    size = 0
    for message, _, targets, _ in pending:
        if message.properties.persistent:
            size += record_bytes(message, len(targets))
    return size
