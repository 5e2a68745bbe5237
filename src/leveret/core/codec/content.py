"""Messages as frames: basic.deliver, get-ok, return and their content, and publisher confirms.

Only writes into an write buffer. Called for every delivery, so each function reserves its room once and fills it in
place."""

import cython

if not cython.compiled:
    from leveret.core.codec.body_frames import write_large_body
    from leveret.core.codec.method_ids import BASIC, GET_OK, RETURN
    from leveret.core.codec.pure_octets import copy_octets, write_u16, write_u32, write_u64

    BODY_COPIED_MAX = 16384


def write_content(out, channel, message, payload_max):
    """The header frame and the body frames. `payload_max` is the peer's frame_max less the frame's own 8 octets."""
    raw = message.properties.raw
    body = message.body
    size = len(body)
    properties_size = len(raw)
    out.reserve(28 + properties_size + (size if size <= BODY_COPIED_MAX else 0))
    p = out.p
    at = out.end
    p[at] = 2
    write_u16(p, at + 1, channel)
    write_u32(p, at + 3, 12 + properties_size)
    write_u32(p, at + 7, BASIC)
    write_u64(p, at + 11, size)
    source = raw
    copy_octets(p, at + 19, source, 0, properties_size)
    at += 19 + properties_size
    p[at] = 0xCE
    at += 1
    if size == 0:
        return out.wrote(at - out.end)
    if size > BODY_COPIED_MAX or size > payload_max:
        out.wrote(at - out.end)
        return write_large_body(out, channel, body, payload_max, False)
    p[at] = 3
    write_u16(p, at + 1, channel)
    write_u32(p, at + 3, size)
    source = body
    copy_octets(p, at + 7, source, 0, size)
    at += 7 + size
    p[at] = 0xCE
    return out.wrote(at + 1 - out.end)


def write_deliver(out, channel, prefix, tag, redelivered, message, payload_max):
    """basic.deliver with its content. `prefix` is the method's id and the consumer tag as a short string.

    A body that fits one frame, as nearly all do, is written with one reservation for all three frames."""
    address = message.address
    prefix_size = len(prefix)
    address_size = len(address)
    raw = message.properties.raw
    properties_size = len(raw)
    body = message.body
    size = len(body)
    if size > BODY_COPIED_MAX or size > payload_max:
        size = 0
    out.reserve(45 + prefix_size + address_size + properties_size + size)
    p = out.p
    at = out.end
    p[at] = 1
    write_u16(p, at + 1, channel)
    write_u32(p, at + 3, prefix_size + 9 + address_size)
    source = prefix
    copy_octets(p, at + 7, source, 0, prefix_size)
    at += 7 + prefix_size
    write_u64(p, at, tag)
    p[at + 8] = redelivered
    source = address
    copy_octets(p, at + 9, source, 0, address_size)
    at += 9 + address_size
    p[at] = 0xCE
    p[at + 1] = 2
    write_u16(p, at + 2, channel)
    write_u32(p, at + 4, 12 + properties_size)
    write_u32(p, at + 8, BASIC)
    write_u64(p, at + 12, len(body))
    source = raw
    copy_octets(p, at + 20, source, 0, properties_size)
    at += 20 + properties_size
    p[at] = 0xCE
    at += 1
    if size > 0:
        p[at] = 3
        write_u16(p, at + 1, channel)
        write_u32(p, at + 3, size)
        source = body
        copy_octets(p, at + 7, source, 0, size)
        at += 7 + size
        p[at] = 0xCE
        at += 1
    out.wrote(at - out.end)
    if size == 0 and len(body) > 0:
        return write_large_body(out, channel, body, payload_max, True)
    return 0


def write_get_ok(out, channel, tag, redelivered, message, left, payload_max):
    address = message.address
    out.reserve(7 + 4 + 9 + len(address) + 4 + 1)
    p = out.p
    at = out.end
    p[at] = 1
    write_u16(p, at + 1, channel)
    write_u32(p, at + 3, 4 + 9 + len(address) + 4)
    write_u32(p, at + 7, GET_OK)
    write_u64(p, at + 11, tag)
    p[at + 19] = redelivered
    source = address
    copy_octets(p, at + 20, source, 0, len(address))
    at += 20 + len(address)
    write_u32(p, at, left)
    p[at + 4] = 0xCE
    out.wrote(at + 5 - out.end)
    return write_content(out, channel, message, payload_max)


def write_return(out, channel, code, text, message, payload_max):
    address = message.address
    out.reserve(7 + 4 + 2 + 1 + len(text) + len(address) + 1)
    p = out.p
    at = out.end
    p[at] = 1
    write_u16(p, at + 1, channel)
    write_u32(p, at + 3, 4 + 2 + 1 + len(text) + len(address))
    write_u32(p, at + 7, RETURN)
    write_u16(p, at + 11, code)
    p[at + 13] = len(text)
    source = text
    copy_octets(p, at + 14, source, 0, len(text))
    at += 14 + len(text)
    source = address
    copy_octets(p, at, source, 0, len(address))
    at += len(address)
    p[at] = 0xCE
    out.wrote(at + 1 - out.end)
    return write_content(out, channel, message, payload_max)


def write_confirm(out, channel, method, tag, bits):
    """basic.ack or basic.nack from the broker to a publisher."""
    out.reserve(21)
    p = out.p
    at = out.end
    p[at] = 1
    write_u16(p, at + 1, channel)
    write_u32(p, at + 3, 13)
    write_u32(p, at + 7, method)
    write_u64(p, at + 11, tag)
    p[at + 19] = bits
    p[at + 20] = 0xCE
    return out.wrote(21)
