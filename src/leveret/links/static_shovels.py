"""Static shovels: a JSON file that the configuration names, since passwords in it are nobody's business who may read
the configuration.

    {"archive": {"vhost": "/", "src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://there", "dest-queue": "b"}}

The keys are those of the parameter `shovel`, and `vhost`, which is "/" unless it is given."""

from __future__ import annotations

from typing import Any

import msgspec

from leveret.catalog.parameters import SHOVEL, parameter_problems

__all__ = ["StaticShovels", "read_static_shovels"]

StaticShovels = dict[tuple[str, str], dict[str, Any]]
FILE_BYTES_MAX = 1024 * 1024


def read_static_shovels(octets: bytes) -> StaticShovels:
    """By virtual host and name. Raises ValueError with the name and the key that is wrong, and no password."""
    if len(octets) > FILE_BYTES_MAX:
        raise ValueError(f"the file has {len(octets)} bytes; at most {FILE_BYTES_MAX} are read")
    try:
        given: Any = msgspec.json.decode(octets)
    except msgspec.DecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("it must be an object: the name of each shovel with its settings")
    found: StaticShovels = {}
    for name, value in given.items():
        if not isinstance(value, dict) or not isinstance(value.get("vhost", "/"), str):
            raise ValueError(f"shovel {name!r} must be an object, and its vhost a text")
        settings = {key: inner for key, inner in value.items() if key != "vhost"}
        problems = parameter_problems(SHOVEL, name, settings)
        if problems:
            raise ValueError(f"shovel {name!r}: {'; '.join(problems)}")
        found[value.get("vhost", "/"), name] = settings
    return found
