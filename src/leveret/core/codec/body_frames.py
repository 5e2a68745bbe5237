"""Bodies that are too large for one frame, or to be copied: the broker's deliveries and the client's publishes."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_octets import write_u16, write_u32


def write_large_body(out, channel, body, payload_max, delivered):
    """A body in several frames, or one that is referred to instead of copied."""
    done = 0
    while done < len(body):
        count = min(len(body) - done, payload_max)
        out.reserve(8)
        p = out.p
        at = out.end
        p[at] = 3
        write_u16(p, at + 1, channel)
        write_u32(p, at + 3, count)
        out.wrote(7)
        out.refer(body, done, done + count, delivered)
        out.reserve(1)
        p = out.p
        p[out.end] = 0xCE
        out.wrote(1)
        done += count
    return 0
