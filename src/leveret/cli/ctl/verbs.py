"""The verbs that change something."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from leveret.cli.asking import first_line, json_of
from leveret.cli.client import Client, part
from leveret.cli.ctl.printing import announce
from leveret.cli.ctl.registry import verb
from leveret.cli.ctl.words import Misuse, Words
from leveret.cli.exit_codes import Failed

NOT_FOUND = 404


def _password(given: str, words: Words) -> str:
    """That of the command line, where all who may list processes see it, or better: of a file, the terminal or standard
    input."""
    if given:
        return given
    if words.has("new-password-file"):
        return first_line(Path(words.options["new-password-file"]))
    if sys.stdin.isatty():
        password: str = click.prompt("Password", hide_input=True, err=True)
        return password
    return sys.stdin.readline().rstrip("\r\n")


# ---- users and permissions


@verb("add_user")
def add_user(client: Client, words: Words) -> None:
    user, password = words.take("username", "password", optional=1)
    announce(words, f'Adding user "{user}" ...')
    if any(row["name"] == user for row in client.get("/users")):
        raise Failed(f'User "{user}" already exists')
    key = "password_hash" if words.has("pre-hashed-password") else "password"
    client.put(f"/users/{part(user)}", {key: _password(password, words), "tags": ""})


@verb("delete_user")
def delete_user(client: Client, words: Words) -> None:
    (user,) = words.take("username")
    announce(words, f'Deleting user "{user}" ...')
    client.delete(f"/users/{part(user)}")


@verb("change_password")
def change_password(client: Client, words: Words) -> None:
    user, password = words.take("username", "password", optional=1)
    announce(words, f'Changing password for user "{user}" ...')
    tags = client.get(f"/users/{part(user)}")["tags"]
    client.put(f"/users/{part(user)}", {"password": _password(password, words), "tags": tags})


@verb("clear_password")
def clear_password(client: Client, words: Words) -> None:
    (user,) = words.take("username")
    announce(words, f'Clearing password for user "{user}" ...')
    tags = client.get(f"/users/{part(user)}")["tags"]
    client.put(f"/users/{part(user)}", {"password_hash": "", "tags": tags})


@verb("authenticate_user")
def authenticate_user(client: Client, words: Words) -> None:
    user, password = words.take("username", "password", optional=1)
    announce(words, f'Authenticating user "{user}" ...')
    if not client.accepts(user, _password(password, words)):
        raise Failed(f'failed to authenticate user "{user}"')
    click.echo("Success")


@verb("set_user_tags")
def set_user_tags(client: Client, words: Words) -> None:
    if not words.rest:
        words.take("username", "tag", optional=1)
    user, *tags = words.rest
    announce(words, f'Setting tags for user "{user}" to [{", ".join(tags)}] ...')
    known = client.get(f"/users/{part(user)}")
    kept = {key: known[key] for key in ("password_hash", "hashing_algorithm")}
    client.put(f"/users/{part(user)}", {**kept, "tags": tags})


@verb("set_permissions")
def set_permissions(client: Client, words: Words) -> None:
    user, configure, write, read = words.take("username", "conf", "write", "read")
    announce(words, f'Setting permissions for user "{user}" in vhost "{words.vhost}" ...')
    client.put(f"/permissions/{part(words.vhost)}/{part(user)}", {"configure": configure, "write": write, "read": read})


@verb("clear_permissions")
def clear_permissions(client: Client, words: Words) -> None:
    (user,) = words.take("username")
    announce(words, f'Clearing permissions for user "{user}" in vhost "{words.vhost}" ...')
    client.delete(f"/permissions/{part(words.vhost)}/{part(user)}")


@verb("set_topic_permissions")
def set_topic_permissions(client: Client, words: Words) -> None:
    user, exchange, write, read = words.take("username", "exchange", "write", "read")
    announce(words, f'Setting topic permissions on "{exchange}" for user "{user}" in vhost "{words.vhost}" ...')
    body = {"exchange": exchange, "write": write, "read": read}
    client.put(f"/topic-permissions/{part(words.vhost)}/{part(user)}", body)


@verb("clear_topic_permissions")
def clear_topic_permissions(client: Client, words: Words) -> None:
    user, exchange = words.take("username", "exchange", optional=1)
    of = f' on "{exchange}"' if exchange else ""
    announce(words, f'Clearing topic permissions{of} for user "{user}" in vhost "{words.vhost}" ...')
    tail = f"/{part(exchange)}" if exchange else ""
    client.delete(f"/topic-permissions/{part(words.vhost)}/{part(user)}{tail}")


@verb("hash_password")
def hash_password(client: Client, words: Words) -> None:
    (password,) = words.take("password", optional=1)
    announce(words, "Will hash password")
    click.echo(client.post("/auth/hash_password", {"password": _password(password, words)})["password_hash"])


# ---- virtual hosts, limits, policies, parameters


@verb("add_vhost", "update_vhost_metadata")
def add_vhost(client: Client, words: Words) -> None:
    (vhost,) = words.take("vhost")
    announce(words, f'Adding vhost "{vhost}" ...')
    chosen = {
        name.replace("-", "_"): words.options[name]
        for name in ("description", "tags", "default-queue-type")
        if name in words.options
    }
    client.put(f"/vhosts/{part(vhost)}", chosen)


@verb("delete_vhost")
def delete_vhost(client: Client, words: Words) -> None:
    (vhost,) = words.take("vhost")
    announce(words, f'Deleting vhost "{vhost}" ...')
    client.delete(f"/vhosts/{part(vhost)}")


@verb("trace_on", "trace_off")
def trace(client: Client, words: Words) -> None:
    words.take()
    on = words.verb == "trace_on"
    announce(words, f'{"Starting" if on else "Stopping"} tracing for vhost "{words.vhost}" ...')
    path = f"/vhosts/{part(words.vhost)}"
    known = client.get(path)
    # What is not said would be as in a new one.
    kept = {name: known[name] for name in ("description", "tags", "default_queue_type")}
    client.put(path, {**kept, "tracing": on})
    click.echo(f"Trace {'enabled' if on else 'disabled'} for vhost {words.vhost}")


def _limits(client: Client, path: str, text: str) -> None:
    given = json_of(text, "the definition")
    if not isinstance(given, dict):
        raise Misuse('limits are written as {"max-connections": 100}')
    for limit, value in given.items():
        client.put(f"{path}/{part(limit)}", {"value": value})


@verb("set_vhost_limits")
def set_vhost_limits(client: Client, words: Words) -> None:
    (definition,) = words.take("definition")
    announce(words, f'Setting vhost limits to "{definition}" for vhost "{words.vhost}" ...')
    _limits(client, f"/vhost-limits/{part(words.vhost)}", definition)


@verb("clear_vhost_limits")
def clear_vhost_limits(client: Client, words: Words) -> None:
    words.take()
    announce(words, f'Clearing vhost "{words.vhost}" limits ...')
    for row in client.get(f"/vhost-limits/{part(words.vhost)}"):
        for limit in row["value"]:
            client.delete(f"/vhost-limits/{part(words.vhost)}/{part(limit)}")


@verb("set_user_limits")
def set_user_limits(client: Client, words: Words) -> None:
    user, definition = words.take("username", "definition")
    announce(words, f'Setting user limits to "{definition}" for user "{user}" ...')
    _limits(client, f"/user-limits/{part(user)}", definition)


@verb("clear_user_limits")
def clear_user_limits(client: Client, words: Words) -> None:
    user, limit = words.take("username", "limit")
    which = "all limits" if limit == "all" else f'"{limit}" limit'
    announce(words, f'Clearing {which} for user "{user}" ...')
    known = [name for row in client.get(f"/user-limits/{part(user)}") for name in row["value"]]
    for name in known if limit == "all" else [limit]:
        client.delete(f"/user-limits/{part(user)}/{part(name)}")


@verb("set_policy", "set_operator_policy")
def set_policy(client: Client, words: Words) -> None:
    name, pattern, definition = words.take("name", "pattern", "definition")
    kind = "policies" if words.verb == "set_policy" else "operator-policies"
    priority = int(words.number("priority", 0))
    what = f'"{name}" for pattern "{pattern}" to "{definition}" with priority "{priority}" for vhost "{words.vhost}"'
    announce(words, f"Setting {'policy' if kind == 'policies' else 'operator policy override'} {what} ...")
    body = {
        "pattern": pattern,
        "definition": json_of(definition, "the definition"),
        "priority": priority,
        "apply-to": words.options.get("apply-to", "all" if kind == "policies" else "queues"),
    }
    client.put(f"/{kind}/{part(words.vhost)}/{part(name)}", body)


@verb("clear_policy", "clear_operator_policy")
def clear_policy(client: Client, words: Words) -> None:
    (name,) = words.take("name")
    kind = "policies" if words.verb == "clear_policy" else "operator-policies"
    announce(words, f'Clearing policy "{name}" on vhost "{words.vhost}" ...')
    client.delete(f"/{kind}/{part(words.vhost)}/{part(name)}")


@verb("set_parameter")
def set_parameter(client: Client, words: Words) -> None:
    component, name, value = words.take("component_name", "name", "value")
    what = f'"{name}" for component "{component}" to "{value}" in vhost "{words.vhost}"'
    announce(words, f"Setting runtime parameter {what} ...")
    body = {"value": json_of(value, "the value")}
    client.put(f"/parameters/{part(component)}/{part(words.vhost)}/{part(name)}", body)


@verb("clear_parameter")
def clear_parameter(client: Client, words: Words) -> None:
    component, name = words.take("component_name", "name")
    announce(words, f'Clearing runtime parameter "{name}" for component "{component}" ...')
    client.delete(f"/parameters/{part(component)}/{part(words.vhost)}/{part(name)}")


@verb("set_global_parameter")
def set_global_parameter(client: Client, words: Words) -> None:
    name, value = words.take("name", "value")
    announce(words, f'Setting global runtime parameter "{name}" to "{value}" ...')
    client.put(f"/global-parameters/{part(name)}", {"name": name, "value": json_of(value, "the value")})


@verb("clear_global_parameter")
def clear_global_parameter(client: Client, words: Words) -> None:
    (name,) = words.take("name")
    announce(words, f'Clearing global runtime parameter "{name}" ...')
    client.delete(f"/global-parameters/{part(name)}")


# ---- queues and connections


@verb("delete_queue")
def delete_queue(client: Client, words: Words) -> None:
    (queue,) = words.take("queue_name")
    announce(words, f"Deleting queue '{queue}' on vhost '{words.vhost}' ...")
    conditions = {name: "true" for name in ("if-empty", "if-unused") if words.has(name)}
    client.delete(f"/queues/{part(words.vhost)}/{part(queue)}", conditions)


@verb("purge_queue")
def purge_queue(client: Client, words: Words) -> None:
    (queue,) = words.take("queue")
    announce(words, f"Purging queue '{queue}' in vhost '{words.vhost}' ...")
    client.delete(f"/queues/{part(words.vhost)}/{part(queue)}/contents")


@verb("close_connection")
def close_connection(client: Client, words: Words) -> None:
    name, reason = words.take("connection", "explanation", optional=1)
    announce(words, f"Closing connection {name}, reason: {reason} ...")
    client.delete(f"/connections/{part(name)}", headers={"X-Reason": reason} if reason else None)


@verb("close_all_connections")
def close_all_connections(client: Client, words: Words) -> None:
    (reason,) = words.take("explanation", optional=1)
    whole = words.has("global-flag") or "vhost" not in words.options
    announce(words, f"Closing all connections, reason: {reason} ...")
    limit = int(words.number("limit", 0)) or None
    path = "/connections" if whole else f"/vhosts/{part(words.vhost)}/connections"
    for row in client.get(path)[:limit]:
        try:
            client.delete(f"/connections/{part(row['name'])}", headers={"X-Reason": reason} if reason else None)
        except Failed as error:
            # Gone meanwhile, as the other end of a shovel goes with the first.
            if error.status != NOT_FOUND:
                raise


@verb("close_all_user_connections")
def close_all_user_connections(client: Client, words: Words) -> None:
    user, reason = words.take("username", "explanation", optional=1)
    announce(words, f"Closing connections of user {user}, reason: {reason} ...")
    client.delete(f"/connections/username/{part(user)}", headers={"X-Reason": reason} if reason else None)


# ---- definitions


@verb("export_definitions")
def export_definitions(client: Client, words: Words) -> None:
    (file,) = words.take("file", optional=1)
    text = json.dumps(client.get("/definitions"), ensure_ascii=False)
    if file in ("", "-"):
        click.echo(text)
        return
    announce(words, f'Exporting definitions in JSON to a file at "{file}" ...')
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)


@verb("import_definitions")
def import_definitions(client: Client, words: Words) -> None:
    (file,) = words.take("file", optional=1)
    announce(words, f'Importing definitions in JSON from a file at "{file}" ...')
    try:
        text = sys.stdin.read() if file in ("", "-") else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"cannot read {file}: {error}") from None
    client.post("/definitions", json_of(text, file or "what came in"))
