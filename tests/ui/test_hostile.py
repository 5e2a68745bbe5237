"""Names, headers and bodies that would like to be code: nothing of it runs, nothing breaks the policy of the page."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pika
import pytest
from playwright.sync_api import Browser, Page, expect

from leveret.testing import Broker
from tests.http_client import Api
from tests.ui.chromium import Watched

HOSTILE = [
    "<script>window.ran=1</script>",
    "<img src=x onerror=window.ran=1>",
    '"><svg onload=window.ran=1>',
    "javascript:window.ran=1",
    "'+alert(1)+'{{7*7}}${window.ran=1}",
    "</title><script>window.ran=1</script>",
    "a/b/../%2F%00?x=1#y&z=é\u202etxt",
    "__proto__",
    "x" * 250,
]
PAGES = ["overview", "queues?size=250", "exchanges?size=250", "topology?vhost=evil&lone=1", "dead-letters"]
PAGES += ["connections", "channels", "consumers", "users", "vhosts", "policies", "audit?size=250", "tail"]


@pytest.fixture(scope="module")
def evil(browser: Browser) -> Iterator[tuple[Broker, Watched]]:
    with Broker() as broker:
        api = Api(broker)
        assert api.put("/vhosts/evil").status == 201
        assert api.put("/permissions/evil/guest", {"configure": ".*", "write": ".*", "read": ".*"}).status < 300
        for text in HOSTILE:
            name = quote(text, safe="")
            described = {"description": text}
            assert api.put(f"/vhosts/{quote('v' + text, safe='')[:200]}", described).status in (201, 204, 400)
            assert api.put(f"/users/{name}", {"password": "x", "tags": [text]}).status in (201, 400)
            assert api.put(f"/exchanges/evil/{name}", {"type": "topic"}).status == 201
            dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": text}
            assert api.put(f"/queues/evil/{name}", {"arguments": dead}).status == 201
            assert api.post(f"/bindings/evil/e/{name}/q/{name}", {"routing_key": text}).status == 201
            policy = {"pattern": "^nothing$", "definition": {"max-length": 1}}
            assert api.put(f"/policies/evil/{name}", policy).status == 201
        parameters = pika.URLParameters(broker.url)
        parameters.virtual_host = "evil"
        parameters.client_properties = {"connection_name": HOSTILE[1], "product": HOSTILE[0]}
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        for text in HOSTILE:
            properties = pika.BasicProperties(headers={text[:100]: text}, content_type=text[:200], app_id=text[:200])
            channel.basic_publish("", text, text.encode(), properties)
            method, _, _ = channel.basic_get(text)
            assert method is not None
            channel.basic_reject(method.delivery_tag, requeue=False)
        channel.basic_consume(HOSTILE[6], lambda *_: None, consumer_tag=HOSTILE[1])
        connection.process_data_events(0.1)
        watched = Watched(browser, broker.management_url)
        watched.log_in()
        yield broker, watched
        watched.close()
        connection.close()


def check(watched: Watched, page: Page) -> None:
    assert page.evaluate("window.ran") is None
    assert page.evaluate("({}).polluted") is None
    assert watched.problems == []


@pytest.mark.parametrize("place", PAGES)
def test_hostile_names_are_only_shown(evil: tuple[Broker, Watched], place: str) -> None:
    _, watched = evil
    page = watched.open(place)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_timeout(250)
    check(watched, page)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_queue_and_what_is_in_it(evil: tuple[Broker, Watched], text: str) -> None:
    _, watched = evil
    place = f"queues/evil/{quote(text, safe='')}"
    page = watched.open(place)
    expect(page.get_by_role("heading", level=1)).to_have_text(text)
    if text != HOSTILE[6]:
        page = watched.open(f"{place}/messages")
        expect(page.get_by_label("Body", exact=True)).to_contain_text(text)
    page = watched.open(f"{place}/bindings")
    expect(page.get_by_role("row").nth(2)).to_contain_text(text)
    page = watched.open(f"exchanges/evil/{quote(text, safe='')}")
    page.get_by_label("Routing key").fill(text)
    page.get_by_role("button", name="Simulate").click()
    expect(page.get_by_text("It would reach").first).to_be_visible()
    check(watched, page)


def test_a_hostile_address_is_only_a_page_that_is_not_there(evil: tuple[Broker, Watched]) -> None:
    _, watched = evil
    script = "<script>window.ran=1</script>"
    for place in ("<img src=x onerror=window.ran=1>", "__proto__", f"queues?name={script}", "%E0%A4%A"):
        page = watched.open(place)
        page.wait_for_timeout(150)
        check(watched, page)
