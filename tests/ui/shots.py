"""Screenshots of every page, light and dark, on a desktop and on a phone: python -m tests.ui.shots FOLDER [PAGE ...]"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from leveret.testing import Broker
from tests.http_client import Api
from tests.ui.chromium import DESKTOP, PHONE, Watched, launched
from tests.ui.furniture import Traffic, fill, make_topology, make_users

PAGES = {
    "overview": "overview",
    "queues": "queues",
    "queue": "queues/%2F/orders.new",
    "messages": "queues/%2F/orders.dead/messages",
    "search": "queues/%2F/invoices/messages?body=coffee",
    "consumers-of-queue": "queues/%2F/orders.paid/consumers",
    "settings": "queues/%2F/invoices/settings",
    "create": "queues?create=1",
    "dead-letters": "dead-letters",
    "exchanges": "exchanges",
    "exchange": "exchanges/%2F/orders",
    "topology": "topology",
    "connections": "connections",
    "channels": "channels",
    "consumers": "consumers",
    "tail": "tail?of=orders&kind=exchange",
    "users": "users",
    "user": "users/management",
    "vhosts": "vhosts",
    "policies": "policies",
    "definitions": "definitions",
    "audit": "audit",
}
# Until charts have some points.
WARM_UP_S = 60.0


def main(folder: Path, wanted: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with Broker({"management.sample_interval_s": 1.0}) as broker, launched() as browser:
        api = Api(broker)
        make_users(api)
        make_topology(api)
        fill(broker.url)
        with Traffic(broker):
            time.sleep(WARM_UP_S)
            for theme in ("light", "dark"):
                for shape, viewport in (("desktop", DESKTOP), ("phone", PHONE)):
                    watched = Watched(browser, broker.management_url, viewport, color_scheme=theme)
                    watched.page.add_init_script("localStorage.setItem('leveret.span', 'minute')")
                    watched.log_in()
                    for shot, place in PAGES.items():
                        if wanted and shot not in wanted:
                            continue
                        watched.page.goto(f"{broker.management_url}/#/{place}")
                        if shot == "tail":
                            watched.page.get_by_role("button", name="Start").click()
                        watched.page.wait_for_timeout(1500)
                        watched.page.screenshot(path=folder / f"{shot}-{shape}-{theme}.png")
                    if watched.problems:
                        print(theme, shape, watched.problems)  # noqa: T201
                    watched.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
