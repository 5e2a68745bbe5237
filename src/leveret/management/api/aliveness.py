"""The oldest of health checks: a message really goes into a queue and comes out again."""

from __future__ import annotations

from leveret.auth.access import READ, Right
from leveret.broker.gate import Gate
from leveret.core.codec.message import new_message
from leveret.core.codec.properties import parse_properties
from leveret.core.queue.mover import Mover
from leveret.management.api.health import ANSWERS, OK, failed
from leveret.management.api.numbers import Described
from leveret.management.http.request import Answer, Request
from leveret.management.http.route import Scope, route

QUEUE = "aliveness-test"
BODY = b"test_message"


@route(
    "GET",
    "/api/aliveness-test/{vhost}",
    Right.MANAGEMENT,
    "Declares a queue, publishes to it and gets the message: needs the permissions for that",
    scope=Scope.ENTER,
    answers=ANSWERS,
)
def check_aliveness(request: Request) -> Described | Answer:
    requester, broker = request.requester(), request.services.broker
    queue = request.services.topology.declare_queue(requester, QUEUE, False, False, False, {})
    Gate(requester.vhost, requester.access).check_publish(requester.vhost.exchanges[b""])
    requester.access.check_queue(READ, QUEUE)
    if broker.blocked_reason is not None:
        return failed(f"publishers are blocked: {broker.blocked_reason}")
    with broker.turn():
        message = new_message(b"", QUEUE.encode(), parse_properties(b"\x00\x00"), BODY)
        message.stamp = broker.office.now
        queue.receive(message)
        mover = Mover(queue)
        # A consumer that takes it proves as much.
        if queue.subscriber_count() == 0:
            if not mover.fetch():
                return failed("a message that was published is not there")
            mover.settle()
    return OK
