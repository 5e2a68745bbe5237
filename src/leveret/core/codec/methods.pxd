# Methods of AMQP 0-9-1 that the data plane reads or writes itself: class id << 16 | method id. Those without a prefix are
# of the class basic. The Python twin is method_ids.py; tests/unit/core/test_twins.py compares them.

cdef enum:
    # Without a method: what a content header begins with
    BASIC = 0x003C0000
    PUBLISH = 0x003C0028
    RETURN = 0x003C0032
    DELIVER = 0x003C003C
    GET_OK = 0x003C0047
    ACK = 0x003C0050
    REJECT = 0x003C005A
    NACK = 0x003C0078
    CHANNEL_OPEN = 0x0014000A
    CHANNEL_CLOSE = 0x00140028
    CHANNEL_CLOSE_OK = 0x00140029
    TX_COMMIT = 0x005A0014
