"""What `leveretctl VERB --help` says: how a verb is written, what it does, and the options that all of them take."""

from __future__ import annotations

from typing import Any, cast

import click

from leveret.cli.ctl.listing import LISTINGS
from leveret.cli.ctl.registry import VERBS
from leveret.cli.ctl.words import Usage, Words

SAYS = {
    "add_user": "Creates a user, who has no permissions yet. The password is asked for if it is not there.",
    "add_vhost": "Creates a virtual host. Takes --description, --tags and --default-queue-type.",
    "alarms": "Says whether memory or disk are short.",
    "authenticate_user": "Tries a user's password. It is asked for if it is not there.",
    "await_online_nodes": "Waits until the broker serves clients, --timeout seconds at most.",
    "await_startup": "Waits until the broker serves clients, --timeout seconds at most.",
    "change_password": "Changes a user's password. It is asked for if it is not there.",
    "check_alarms": "Fails if memory or disk are short.",
    "check_certificate_expiration": "Fails if a certificate of the broker ends within a month.",
    "check_if_node_is_mirror_sync_critical": "Succeeds: there are no mirrored queues.",
    "check_if_node_is_quorum_critical": "Fails if a queue could not go on without this node.",
    "check_local_alarms": "Fails if memory or disk are short.",
    "check_port_listener": "Fails if the broker does not listen on this port.",
    "check_protocol_listener": "Fails if the broker does not speak this protocol, such as amqp or stream.",
    "check_running": "Fails if the broker does not serve clients.",
    "check_virtual_hosts": "Fails if a virtual host is not running.",
    "clear_global_parameter": "Deletes a global parameter.",
    "clear_operator_policy": "Deletes an operator policy of the virtual host.",
    "clear_parameter": "Deletes a parameter of the virtual host.",
    "clear_password": "Removes a user's password, so that password logins are refused.",
    "clear_permissions": "Takes a user's permissions in the virtual host away.",
    "clear_policy": "Deletes a policy of the virtual host.",
    "clear_topic_permissions": "Takes a user's topic permissions away, for one exchange or for all.",
    "clear_user_limits": "Deletes one limit of a user, or all.",
    "clear_vhost_limits": "Deletes all limits of the virtual host.",
    "close_all_connections": "Closes the connections to the virtual host of -p, or all; no more than --limit.",
    "close_all_user_connections": "Closes all connections of a user.",
    "close_connection": "Closes a connection; its name is in list_connections name.",
    "cluster_status": "Says how the node is.",
    "delete_queue": "Deletes a queue with its messages; with --if-empty or --if-unused only then.",
    "delete_shovel": "Deletes a shovel. Messages stay where they are.",
    "delete_user": "Deletes a user.",
    "delete_vhost": "Deletes a virtual host with all that is in it.",
    "enable_feature_flag": "Succeeds: every feature is on.",
    "environment": "Prints what the node and the overview say, as JSON.",
    "export_definitions": "Writes users, virtual hosts, queues and the rest into a file, or to standard output.",
    "federation_status": "Lists federation links.",
    "hash_password": "Prints the hash of a password. It is asked for if it is not there.",
    "import_definitions": "Makes what a file of definitions names; standard input without a file.",
    "is_running": "Fails if the broker does not serve clients.",
    "list_bindings": "Lists the bindings of the virtual host.",
    "list_channels": "Lists the channels of all connections.",
    "list_connections": "Lists the connections of clients.",
    "list_consumers": "Lists the consumers in the virtual host.",
    "list_exchanges": "Lists the exchanges of the virtual host.",
    "list_feature_flags": "Lists features.",
    "list_global_parameters": "Lists global parameters.",
    "list_operator_policies": "Lists the operator policies of the virtual host.",
    "list_parameters": "Lists the parameters of the virtual host.",
    "list_permissions": "Lists who may do what in the virtual host.",
    "list_policies": "Lists the policies of the virtual host.",
    "list_queues": "Lists the queues of the virtual host.",
    "list_shovels": "Lists shovels.",
    "list_stream_connections": "Lists the connections of stream clients.",
    "list_stream_consumers": "Lists the consumers of stream clients in the virtual host.",
    "list_stream_publishers": "Lists the publishers of stream clients in the virtual host.",
    "list_topic_permissions": "Lists topic permissions in the virtual host.",
    "list_user_limits": "Lists the limits of users.",
    "list_user_permissions": "Lists the permissions of one user.",
    "list_user_topic_permissions": "Lists the topic permissions of one user.",
    "list_users": "Lists users and their tags.",
    "list_vhost_limits": "Lists the limits of the virtual host.",
    "list_vhosts": "Lists virtual hosts.",
    "listeners": "Lists the ports that are open.",
    "memory_breakdown": "Says what memory is used for.",
    "node_health_check": "Fails if the broker does not serve clients.",
    "ping": "Fails if the broker does not answer.",
    "purge_queue": "Deletes the messages that wait in a queue.",
    "report": "Prints all lists as JSON, for a support request.",
    "restart_federation_link": "Connects a federation link anew; its id is in federation_status.",
    "restart_shovel": "Connects both sides of a shovel anew.",
    "server_version": "Prints the broker's version.",
    "set_cluster_name": "Names the cluster.",
    "set_global_parameter": "Sets a global parameter; the value is JSON.",
    "set_operator_policy": "Sets an operator policy; the definition is JSON. Takes --priority and --apply-to.",
    "set_parameter": "Sets a parameter of the virtual host; the value is JSON.",
    "set_permissions": "Sets which names a user may configure, write to and read in the virtual host: three patterns.",
    "set_policy": "Sets a policy; the definition is JSON. Takes --priority and --apply-to.",
    "set_topic_permissions": "Sets which routing keys a user may publish and bind with at a topic exchange.",
    "set_user_limits": 'Sets limits of a user, such as {"max-channels": 100}.',
    "set_user_tags": "Sets a user's tags; none take all of them away.",
    "set_vhost_limits": 'Sets limits of the virtual host, such as {"max-queues": 100}.',
    "shovel_status": "Lists shovels.",
    "status": "Says how the node is.",
    "trace_off": "Ends the tracing of the virtual host.",
    "trace_on": "Has what is published and delivered in the virtual host copied to its exchange amq.rabbitmq.trace.",
    "update_vhost_metadata": "Changes a virtual host. Takes --description, --tags and --default-queue-type.",
    "version": "Prints the version of this tool.",
    "wait": "Waits until the broker serves clients, --timeout seconds at most.",
}
OPTIONS = """Options that every verb takes:
  -p, --vhost VHOST     the virtual host; / if there is none
  -q, --quiet           no line that says what is done
  -s, --silent          no head of the table either
  -t, --timeout N       seconds, for verbs that wait
  --formatter NAME      table, json, json_stream or csv
  --url URL, --socket PATH, --user NAME, --password-file FILE, --ca FILE
                        which broker, and as whom; see docs/cli.md"""


def usage_of(verb: str) -> str:
    """How it is written: what the verb itself takes its words by."""
    if verb in LISTINGS:
        listing = LISTINGS[verb]
        words = " <name>" * listing.words or (" [<column> ...]" if listing.free else "")
        return f"leveretctl {verb}{words}"
    try:
        VERBS[verb](cast(Any, None), Words(verb, options={"help": ""}))
    except Usage as usage:
        return usage.text
    raise AssertionError(f"{verb} does not say what it takes")


def print_usage(verb: str) -> None:
    click.echo(f"Usage: {usage_of(verb)}\n\n{SAYS[verb]}\n")
    if verb in LISTINGS and LISTINGS[verb].free:
        click.echo(f"Columns unless others are named: {', '.join(LISTINGS[verb].columns)}\n")
    click.echo(OPTIONS)
