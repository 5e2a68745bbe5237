"""Messages by the run: many published in one call, many answers counted in one.

Never waits and decides nothing: what does not fit into a run is left to whoever asked."""

import cython

if not cython.compiled:
    from leveret.core.client.outgoing import CONFIRMED


def publish_run(codec, messages, start, end, bytes_max, due, owner):
    """Publishes messages[start:end] on a channel codec that confirms, as far as the socket takes them and their bodies
    have no more than `bytes_max`. Where it stopped: at `start` if the first has to be looked at by itself."""
    at = start
    while at < end and not codec.write_buffer.congested:
        message = messages[at]
        size = len(message.body)
        if size > bytes_max or len(message.raw) + 12 > codec.payload_max:
            break
        bytes_max -= size
        message.owner = owner
        message.due = due
        message.index = at
        codec.publish(message)
        at += 1
    return at


def tally(settled):
    """What the broker's answers come to: (how many are confirmed, the octets of their bodies, [(owner, how many of its
    messages in a row)], those that are not confirmed). Confirmed ones have no owner any more."""
    runs = []
    others = []
    last = None
    count = total = size = 0
    for message in settled:
        if message.outcome != CONFIRMED:
            others.append(message)
            continue
        total += 1
        size += len(message.body)
        owner = message.owner
        message.owner = None
        if owner is not last:
            if count > 0:
                runs.append((last, count))
            last = owner
            count = 0
        count += 1
    if count > 0:
        runs.append((last, count))
    return total, size, runs, others


def find_untried(messages, start, known):
    """Where the first is, from `start` on, that goes to an address that is not known, or is no message; their number if
    there is none. With no set of the known ones all are."""
    last = None
    for at in range(start, len(messages)):
        message = messages[at]
        if message is None:
            return at
        address = message.address
        # One after the other they mostly share it.
        if address is not last:
            if known is not None and address not in known:
                return at
            last = address
    return len(messages)
