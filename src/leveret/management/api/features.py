"""What tools of RabbitMQ look for and have nothing to do with here: feature flags, deprecated features, rebalancing.

The answers are true: every feature there is can be used, none is deprecated, and one node is always in balance."""

from __future__ import annotations

from leveret.auth.access import Right
from leveret.management.api.numbers import Described
from leveret.management.http.errors import bad_request
from leveret.management.http.request import DONE, Answer, Request
from leveret.management.http.route import route

# Flags of RabbitMQ that name something which works here.
FLAGS = {
    "stream_queue": "Streams",
    "stream_single_active_consumer": "Single active consumers for streams",
    "stream_filtering": "Streams with filters",
    "user_limits": "Limits of connections and channels of a user",
    "virtual_host_metadata": "Virtual hosts with a description and tags",
    "direct_exchange_routing_v2": "Direct exchanges that look up the routing key",
    "maintenance_mode_status": "A node that is about to stop says so",
}


@route("GET", "/api/feature-flags", Right.ADMINISTRATOR, "Features, all of them enabled")
def list_flags(request: Request) -> list[Described]:
    return [
        {
            "name": name,
            "desc": meaning,
            "doc_url": "",
            "state": "enabled",
            "stability": "required",
            "provided_by": "leveret",
        }
        for name, meaning in sorted(FLAGS.items())
    ]


@route("PUT", "/api/feature-flags/{name}/enable", Right.ADMINISTRATOR, "Enables a feature, which is enabled")
def enable_flag(request: Request) -> Answer:
    if request.path["name"] not in FLAGS:
        raise bad_request("unsupported")
    return DONE


@route("GET", "/api/deprecated-features", Right.ADMINISTRATOR, "Deprecated features: none")
@route("GET", "/api/deprecated-features/used", Right.ADMINISTRATOR, "Deprecated features that are used: none")
def list_deprecated(request: Request) -> list[Described]:
    return []


@route("POST", "/api/rebalance/queues", Right.ADMINISTRATOR, "Spreads queues over the nodes, which are one")
def rebalance(request: Request) -> Answer:
    return DONE
