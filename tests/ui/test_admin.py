"""Users, permissions, virtual hosts, policies with a preview, definitions with a difference, the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.http_client import Api

Visit = Callable[[str], Page]


def test_a_user_is_added_gets_a_permission_and_is_probed(visit: Visit, api: Api) -> None:
    page = visit("users")
    page.get_by_role("button", name="Add a user").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("clerk")
    dialog.get_by_label("Password").fill("secret")
    dialog.get_by_role("button", name="Add").click()
    page.get_by_role("link", name="clerk").click()
    expect(page.get_by_text("may enter no virtual host")).to_be_visible()
    page.get_by_role("button", name="Set a permission").click()
    page.get_by_label("Configure").fill("^$")
    page.get_by_label("Write").fill("^orders")
    page.get_by_role("dialog").get_by_role("button", name="Set").click()
    expect(page.get_by_role("row").filter(has_text="^orders")).to_be_visible()
    page.get_by_label("Queue or exchange").fill("orders.new")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("may not configure")).to_be_visible()
    expect(page.get_by_text("may write")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Type clerk to confirm").fill("clerk")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("clerk is gone")).to_be_visible()
    assert api.get("/users/clerk").status == 404


def test_a_virtual_host_is_added_and_deleted(visit: Visit, api: Api) -> None:
    page = visit("vhosts")
    page.get_by_role("button", name="Add a virtual host").click()
    page.get_by_role("dialog").get_by_label("Name").fill("shop")
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    row = page.get_by_role("row").filter(has_text="shop")
    expect(row).to_be_visible()
    assert api.get("/vhosts/shop").status == 200
    row.get_by_role("button", name="Delete").click()
    page.get_by_label("Type shop to confirm").fill("shop")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert api.get("/vhosts/shop").status == 404


def test_a_policy_is_looked_at_before_it_counts(visit: Visit, api: Api) -> None:
    page = visit("policies")
    page.get_by_role("button", name="Set a policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("brief")
    dialog.get_by_label("Pattern").fill("^(emails|invoices)$")
    dialog.get_by_label("Priority").fill("5")
    dialog.get_by_label("Definition").fill('{"message-ttl": 3600000}')
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("apply to 2 things and change 2")).to_be_visible()
    row = dialog.get_by_role("row").filter(has_text="invoices")
    expect(row).to_contain_text("short-queues")
    expect(row).to_contain_text("brief")
    assert api.get("/policies/%2F/brief").status == 404
    dialog.get_by_role("button", name="Set the policy").click()
    # Its preview has rows with that name, too.
    expect(dialog).to_have_count(0)
    row = page.get_by_role("row").filter(has_text="brief")
    expect(row).to_be_visible()
    assert api.get("/queues/%2F/emails").body["policy"] == "brief"
    row.get_by_role("button", name="Clear").click()
    expect(row).to_have_count(0)


def test_definitions_are_compared_before_they_are_imported(visit: Visit, api: Api, tmp_path: Path) -> None:
    queue = {"vhost": "/", "name": "imported", "durable": True, "auto_delete": False, "arguments": {}}
    known = {**queue, "name": "emails"}
    path = tmp_path / "more.json"
    path.write_text(json.dumps({"queues": [queue, known]}))
    page = visit("definitions")
    page.get_by_label("File with definitions").set_input_files(path)
    expect(page.get_by_text("1 would be created, 0 changed")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="imported")).to_contain_text("create")
    assert api.get("/queues/%2F/imported").status == 404
    page.get_by_role("button", name="Import: 1 change").click()
    expect(page.get_by_text("The definitions of more.json are imported")).to_be_visible()
    assert api.delete("/queues/%2F/imported").status == 204


def test_definitions_are_downloaded(visit: Visit) -> None:
    page = visit("definitions")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    found = json.loads(Path(download.value.path()).read_text())
    assert "orders.new" in [one["name"] for one in found["queues"]]


def test_the_audit_log_says_who_did_what(visit: Visit, api: Api) -> None:
    assert api.put("/queues/%2F/audited", {}).status == 201
    assert api.delete("/queues/%2F/audited").status == 204
    page = visit("audit?name=DELETE")
    expect(page.get_by_role("row").filter(has_text="audited").first).to_contain_text("guest")
