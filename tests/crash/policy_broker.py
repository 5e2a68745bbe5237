"""Leveret that sets policies the moment it serves: `python policy_broker.py FOLDER serve ...`.

There is no other way to set them in a process of its own yet. What is in FOLDER/put.json is set; FOLDER/done says that
it is safe on disk, as an operator would be told. FOLDER/found.json is what the start found."""

import asyncio
import json
import runpy
import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = str(Path(__file__).resolve())


def program(folder: Path) -> tuple[str, ...]:
    """What to run instead of `-m leveret`."""
    return (PROGRAM, str(folder))


def set_policies(folder: Path) -> None:
    from leveret.node.node import Node

    start = Node.start

    async def put(node: Node) -> None:
        for name, pattern, definition in json.loads((folder / "put.json").read_text()):
            node.policies.put("/", name, pattern, definition)
        assert node.store is not None
        await node.store.flush()
        (folder / "done").touch()

    def start_and_put(node: Node) -> None:
        start(node)
        found = [[policy.name, policy.pattern, policy.definition] for policy in node.policies.list("/")]
        (folder / "found.json").write_text(json.dumps(found))
        # Held by the node, as whatever it started itself.
        node.putting = asyncio.get_running_loop().create_task(put(node))  # type: ignore[attr-defined]

    Node.start = start_and_put  # type: ignore[method-assign]


if __name__ == "__main__":
    # This folder must not hide what Leveret imports.
    del sys.path[0]
    set_policies(Path(sys.argv.pop(1)))
    runpy.run_module("leveret", run_name="__main__", alter_sys=True)
