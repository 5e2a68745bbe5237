"""The verbs about shovels and federation links."""

from __future__ import annotations

from leveret.cli.client import Client, part
from leveret.cli.ctl.printing import announce
from leveret.cli.ctl.registry import verb
from leveret.cli.ctl.words import Words
from leveret.cli.exit_codes import Failed


@verb("delete_shovel")
def delete_shovel(client: Client, words: Words) -> None:
    (name,) = words.take("name")
    announce(words, f'Deleting shovel "{name}" in vhost "{words.vhost}" ...')
    client.delete(f"/shovels/vhost/{part(words.vhost)}/{part(name)}")


@verb("restart_shovel")
def restart_shovel(client: Client, words: Words) -> None:
    (name,) = words.take("name")
    announce(words, f'Restarting shovel "{name}" in vhost "{words.vhost}" ...')
    client.delete(f"/shovels/vhost/{part(words.vhost)}/{part(name)}/restart")


@verb("restart_federation_link")
def restart_federation_link(client: Client, words: Words) -> None:
    (link,) = words.take("link_id")
    announce(words, f"Restarting federation link {link} ...")
    found = next((row for row in client.get("/federation-links") if row["id"] == link), None)
    if found is None:
        raise Failed(f"Link with the given ID was not found: {link}")
    client.delete(f"/federation-links/vhost/{part(found['vhost'])}/{part(link)}/{part(found['node'])}/restart")
