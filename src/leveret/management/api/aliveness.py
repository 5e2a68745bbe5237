"""The oldest of health checks: a message really goes into a queue and comes out again."""

from __future__ import annotations

from leveret.broker.access import READ, Right
from leveret.broker.gate import Gate
from leveret.core.borrower import Borrower
from leveret.core.message import new_message
from leveret.core.properties import parse_properties
from leveret.management.api.health import ANSWERS, OK, failed
from leveret.management.api.numbers import Described
from leveret.management.http.ask import Answer, Ask
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
def check_aliveness(ask: Ask) -> Described | Answer:
    requester, broker = ask.requester(), ask.services.broker
    queue = ask.services.topology.declare_queue(requester, QUEUE, False, False, False, {})
    Gate(requester.vhost, requester.access).check_publish(requester.vhost.exchanges[b""])
    requester.access.check_queue(READ, QUEUE)
    if broker.blocked_reason is not None:
        return failed(f"publishers are blocked: {broker.blocked_reason}")
    broker.tick()
    message = new_message(b"", QUEUE.encode(), parse_properties(b"\x00\x00"), BODY)
    message.stamp = broker.office.now
    queue.receive(message)
    borrower = Borrower(queue)
    # Somebody may consume from it, which proves as much.
    if queue.subscriber_count() == 0:
        if not borrower.fetch():
            return failed("a message that was published is not there")
        borrower.settle()
    broker.kick()
    return OK
