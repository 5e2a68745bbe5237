"""Secrets stay secret: a canary in every place where one is given, and a look everywhere it could come out.

Answers CVE-2025-50200, 2022-31008, 2026-66068, -67406, -67221, -57219 and -67410. A canary is looked for as it is, in
base64 at any alignment, percent-encoded and in hexadecimal. An administrator alone sees addresses of links with their
passwords, which RabbitMQ needs for exporting them; and hashes, which are no passwords."""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pika
import pytest
from cryptography.hazmat.primitives import serialization
from pika.exceptions import AMQPError

from leveret.node.config.loading import load_settings
from leveret.runtime.secret import Secret
from leveret.testing import Broker
from leveret.wire import stream_commands
from tests.conformance.authority import Authority, Papers
from tests.conformance.raw_client import RawClient, ServerClosed
from tests.conformance.raw_stream_client import Closed, RawStreamClient
from tests.conformance.server_process import end_process, free_port, spawn, wait_until_serving
from tests.http_client import Api
from tests.unit.broker.signing import AUDIENCE, claims, pem, private_key, sign

PLACES = [
    "default_password", "key_password", "jwks_url", "plain_bad", "amqplain_bad", "http_bad", "bearer_bad", "user_put",
    "user_odd", "definitions", "definitions_odd", "shovel", "shovel_odd", "upstream", "global", "update_secret",
    "stream_bad", "hash_password", "cli_env", "cli_url", "query",
]  # fmt: skip


class Canaries:
    def __init__(self) -> None:
        # With letters that look different once they are encoded.
        self.known = {place: f"canary:{place}/{secrets.token_hex(6)}+x@y" for place in PLACES}

    def __getitem__(self, place: str) -> str:
        return self.known[place]

    def found_in(self, text: bytes, but: tuple[str, ...] = ()) -> list[str]:
        folded = text.lower()
        return [
            place
            for place, canary in self.known.items()
            if place not in but and any(form in (folded if fold else text) for form, fold in forms(canary.encode()))
        ]


def forms(canary: bytes) -> Iterator[tuple[bytes, bool]]:
    """What it may look like, and whether its letters may be large or small."""
    yield canary, False
    yield json.dumps(canary.decode()).encode()[1:-1], False
    yield quote(canary.decode(), safe="").lower().encode(), True
    yield quote(canary.decode()).lower().encode(), True
    yield canary.hex().encode(), True
    for lead in range(3):
        # The letters at both ends depend on what stands beside it.
        encoded = base64.b64encode(b"\0" * lead + canary)
        inner = encoded[4 if lead else 0 : -4]
        yield inner, False
        yield inner.translate(bytes.maketrans(b"+/", b"-_")), False


@pytest.mark.parametrize(
    "write",
    [
        lambda canary: canary.encode(),
        lambda canary: base64.b64encode(f"user:{canary}".encode()),
        lambda canary: base64.urlsafe_b64encode(f"\0user\0{canary}".encode()),
        lambda canary: quote(canary, safe="").encode(),
        lambda canary: canary.encode().hex().upper().encode(),
        lambda canary: repr({"password": canary}).encode(),
        lambda canary: json.dumps({"password": canary}).encode(),
    ],
)
def test_a_canary_is_found_wherever_it_is_planted(write: Callable[[str], bytes]) -> None:
    canaries = Canaries()
    for place in PLACES:
        assert canaries.found_in(b"before " + write(canaries[place]) + b" after") == [place]
    assert canaries.found_in(b"nothing of that kind") == []


# ---- a process of its own


class Node:
    """`leveret serve` as operators run it, at the level debug."""

    def __init__(self, directory: Path, canaries: Canaries, form: str) -> None:
        self.canaries = canaries
        self.directory = directory
        self.port, self.stream_port, self.http, self.metrics = (free_port() for _ in range(4))
        self.url = f"http://127.0.0.1:{self.http}"
        self.log = directory / "log"
        self.config = directory / "leveret.toml"
        self.environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        self._write_config(form)
        self.process = spawn(
            [sys.executable, "-m", "leveret", "serve", "--config", str(self.config)], self.log, self.environment
        )
        wait_until_serving(self.process, self.port, self.log)

    def _write_config(self, form: str) -> None:
        papers = encrypted(Authority(self.directory / "ca").server(), self.canaries["key_password"])
        key = self.directory / "token.pem"
        key.write_text(pem(private_key("rsa")))
        password = self.directory / "password"
        password.write_text(self.canaries["default_password"])
        in_file, elsewhere = "key_password", "default_password"
        if form == "text":
            in_file, elsewhere = elsewhere, in_file
            self.environment["LEVERET__TLS__KEY_PASSWORD"] = self.canaries["key_password"]
        said = {"default_password": "auth", "key_password": "tls"}
        sections: dict[str, list[str]] = {
            "auth": ['default_user = "boss"', "failures_max = 1000"],
            "tls": [f'certificate = "{papers.certificate}"', f'key = "{papers.key}"'],
        }
        sections[said[in_file]].append(f'{in_file} = "{self.canaries[in_file]}"')
        if elsewhere == "default_password":
            sections["auth"].append(f'default_password_file = "{password}"')
        top = [f'data_dir = "{self.directory / "data"}"', 'log_level = "debug"', f'log_format = "{form}"']
        listen = [
            f"port = {self.port}",
            f"stream_port = {self.stream_port}",
            f"management_port = {self.http}",
            f"metrics_port = {self.metrics}",
            "tls_port = 0",
            f'socket = "{self.directory / "s"}"',
        ]
        tokens = ["enabled = true", f'audience = "{AUDIENCE}"', 'jwks_url = "https://127.0.0.1:1/jwks"']
        text = "\n".join(top) + "\n[listen]\n" + "\n".join(listen) + "\n"
        for section, lines in sections.items():
            text += f"[{section}]\n" + "\n".join(lines) + "\n"
        text += "[auth.tokens]\n" + "\n".join(tokens) + f'\nkeys = {{ k1 = "{key}" }}\n'
        self.config.write_text(text)

    def boss(self) -> Api:
        return Api(self.url, "boss", self.canaries["default_password"])

    def run(self, *words: str, **environment: str) -> bytes:
        """A command of the command line, all that it says."""
        done = subprocess.run(
            [sys.executable, "-m", "leveret", *words],
            env={**self.environment, **environment, "HOME": str(self.directory)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return done.stdout


def encrypted(papers: Papers, password: str) -> Papers:
    key = serialization.load_pem_private_key(papers.key.read_bytes(), None)
    papers.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        )
    )
    return papers


def log_in(node: Node, user: str, password: str, mechanism: str = "PLAIN") -> None:
    with suppress(ServerClosed, OSError), RawClient("127.0.0.1", node.port) as client:
        client.start()
        response: Any = f"\0{user}\0{password}"
        if mechanism == "AMQPLAIN":
            said = {b"LOGIN": user.encode(), b"PASSWORD": password.encode()}
            response = b"".join(
                bytes([len(name)]) + name + b"S" + len(value).to_bytes(4, "big") + value for name, value in said.items()
            ).decode("latin-1")
        client.send(
            0,
            "connection.start-ok",
            client_properties={},
            mechanism=mechanism,
            response=response,
            locale="en_US",
        )
        tune = client.read()
        if tune.name == "connection.tune":
            client.tune_ok(tune)
            client.call(0, "connection.open", virtual_host="/")
            client.send(0, "connection.update-secret", new_secret=node.canaries["update_secret"], reason="test")
            client.read()


def talk(node: Node) -> list[bytes]:
    """Gives every canary away once, in requests that succeed and in requests that fail. The answers."""
    canaries, boss = node.canaries, node.boss()
    said: list[bytes] = []

    def note(reply: Any) -> int:
        said.append(json.dumps(reply.headers).encode() + (reply.body or b""))
        status: int = reply.status
        return status

    log_in(node, "boss", canaries["default_password"])
    log_in(node, "boss", canaries["default_password"], "AMQPLAIN")
    log_in(node, "boss", canaries["plain_bad"])
    log_in(node, "boss", canaries["amqplain_bad"], "AMQPLAIN")
    with suppress(Closed, OSError, AssertionError), RawStreamClient("127.0.0.1", node.stream_port) as stream:
        stream.code(stream_commands.SaslHandshake)
        stream.authenticate("boss", canaries["stream_bad"])
    assert note(Api(node.url, "boss", canaries["http_bad"]).get("/whoami", decoded=False)) == 401
    good = sign(claims("tag:administrator"), private_key("rsa"))
    assert note(Api(node.url, token=good).get("/whoami", decoded=False)) == 200
    parts = good.split(".")
    # A token that is good is a secret as a whole, and its end cannot be guessed.
    canaries.known["token"] = parts[2]
    hidden = base64.urlsafe_b64encode(canaries["bearer_bad"].encode()).decode().rstrip("=")
    for bad in (f"{parts[0]}.{hidden}.{parts[2]}", canaries["bearer_bad"], f"eyJhbGciOiJub25lIn0.{hidden}.x"):
        assert note(Api(node.url, token=bad).get("/whoami", decoded=False)) == 401
    unknown_key = sign(claims("tag:administrator"), private_key("rsa", "other"), kid="unknown")
    assert note(Api(node.url, token=unknown_key).get("/whoami", decoded=False)) == 401
    users = [
        ("ann", {"password": canaries["user_put"], "tags": "monitoring"}, 201),
        ("ann", {"password": [canaries["user_odd"]], "tags": "monitoring"}, 400),
        ("ann", {"password": canaries["user_odd"] + "\ud800", "tags": ""}, 400),
        ("ann", {"password": canaries["user_odd"], "password_hash": canaries["user_odd"], "tags": ""}, 400),
        ("ann", {"password_hash": canaries["user_odd"], "tags": "", "hashing_algorithm": "x"}, 400),
        ("ann", {"password": canaries["user_odd"], "tags": 5}, 400),
        ("ann", {"password": canaries["user_odd"] * 100, "tags": ""}, 400),
    ]
    for user, body, status in users:
        assert note(boss.put(f"/users/{user}", body, decoded=False)) == status, body
    assert note(boss.post("/auth/hash_password", {"password": canaries["hash_password"]}, decoded=False)) == 200
    imported = {"users": [{"name": "bob", "password": canaries["definitions"], "tags": []}]}
    assert note(boss.post("/definitions", imported, decoded=False)) == 204
    for odd in ([canaries["definitions_odd"]], {"a": canaries["definitions_odd"]}, canaries["definitions_odd"] * 200):
        wrong = {"users": [{"name": "bob", "password": odd, "tags": []}]}
        assert note(boss.post("/definitions", wrong, decoded=False)) == 400
        note(boss.post("/definitions/diff", wrong, decoded=False))
    wrong = {"users": [{"name": "bob", "password_hash": canaries["definitions_odd"], "hashing_algorithm": "x"}]}
    note(boss.post("/definitions", wrong, decoded=False))
    said += links(node, boss)
    note(boss.get(f"/queues?name={quote(canaries['query'], safe='')}&use_regex=maybe", decoded=False))
    return said


def links(node: Node, boss: Api) -> list[bytes]:
    canaries = node.canaries
    said = []

    def uri(place: str) -> str:
        return f"amqp://user:{quote(canaries[place], safe='')}@127.0.0.1:1/%2f"

    values = [
        ("shovel", "good", {"src-uri": uri("shovel"), "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}, 201),
        ("shovel", "odd", {"src-uri": [uri("shovel_odd")], "src-queue": 5, "dest-uri": uri("shovel_odd")}, 400),
        ("shovel", "odder", {"src-uri": f"amqp://u:{canaries['shovel_odd']} x@h:nope/", "src-queue": "a"}, 400),
        ("shovel", "oddest", uri("shovel_odd"), 400),
        ("federation-upstream", "good", {"uri": uri("upstream")}, 201),
    ]
    for component, name, value, status in values:
        reply = boss.put(f"/parameters/{component}/%2F/{name}", {"value": value}, decoded=False)
        assert reply.status == status, (reply, value)
        said.append(reply.body or b"")
    reply = boss.put("/global-parameters/g", {"value": {"password": canaries["global"]}}, decoded=False)
    assert reply.status == 201
    return said


def every_answer(node: Node, api: Api) -> Iterator[tuple[str, bytes]]:
    """Of all routes that are read, for everything that there is."""
    document = node.boss().get("/openapi.json").body
    names = {
        "vhost": ["%2F"], "user": ["boss", "ann", "bob"], "component": ["shovel", "federation-upstream"],
        "name": ["good", "odd", "g", "boss"], "queue": ["q"], "exchange": ["amq.topic"],
    }  # fmt: skip
    for path, methods in document["paths"].items():
        if "get" not in methods or path in ("/api/tap", "/api/events"):
            continue
        paths = [path]
        for parameter, values in names.items():
            paths = [one.replace("{" + parameter + "}", value) for one in paths for value in values]
        for one in dict.fromkeys(paths):
            yield (
                path,
                api.get(one.removeprefix("/api") if one.startswith("/api") else f"/{one}", decoded=False).body or b"",
            )
    yield "/api/events", api.get("/events?once=true", decoded=False).body or b""


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_of_a_secret_comes_out(tmp_path: Path, form: str) -> None:
    canaries = Canaries()
    node = Node(tmp_path, canaries, form)
    try:
        for answer in talk(node):
            assert canaries.found_in(answer) == [], answer
        shown_to_boss = ("shovel", "upstream", "global")
        exporting = ("/api/parameters", "/api/definitions", "/api/all-configuration", "/api/global-parameters")
        for path, answer in every_answer(node, node.boss()):
            seen = shown_to_boss if path.startswith(exporting) else ()
            assert canaries.found_in(answer, but=seen) == [], path
        for path, answer in every_answer(node, Api(node.url, "ann", canaries["user_put"])):
            assert canaries.found_in(answer) == [], path
        for path in ("/metrics", "/metrics/per-object", "/metrics/detailed", "/metrics/memory-breakdown"):
            with urlopen(f"http://127.0.0.1:{node.metrics}{path}") as answer:
                assert canaries.found_in(answer.read()) == []
        check_config(node)
        if form == "text":
            check_commands(node)
        os.killpg(node.process.pid, signal.SIGABRT)
        node.process.wait(30)
        text = node.log.read_bytes()
        assert b"Fatal Python error" in text and b"keys for tokens not fetched" in text
        assert canaries.found_in(text) == []
        for file in (tmp_path / "data").rglob("*"):
            if file.is_file():
                # Global parameters are kept as they are; only the owner reads them. What links were told is encrypted.
                kept = ("global",) if "catalog" in str(file) else ()
                assert canaries.found_in(file.read_bytes(), but=kept) == [], file
                assert file.stat().st_mode & 0o077 == 0 or file.parent.stat().st_mode & 0o077 == 0, file
    finally:
        end_process(node.process)


def check_config(node: Node) -> None:
    canaries = node.canaries
    config = node.run("config", "show", "--config", str(node.config), "--sources")
    assert b"default_password" in config and canaries.found_in(config) == []
    assert canaries.found_in(node.run("config", "show", "--config", str(node.config), "-o", "json")) == []
    assert canaries.found_in(node.run("config", "check", "--config", str(node.config))) == []
    bad = node.directory / "bad.toml"
    bad.write_text(node.config.read_text().replace('default_user = "boss"', "default_user = 5"))
    assert canaries.found_in(node.run("config", "check", "--config", str(bad))) == []
    with_password = f"https://user:{quote(canaries['jwks_url'], safe='')}@127.0.0.1:1/"
    bad.write_text(node.config.read_text().replace("https://127.0.0.1:1/", with_password))
    refused = node.run("config", "check", "--config", str(bad))
    assert b"holds a user or a password" in refused and canaries.found_in(refused) == []


def check_commands(node: Node) -> None:
    canaries = node.canaries
    for words in (("status",), ("queues", "list")):
        said = node.run(*words, LEVERET_URL=node.url, LEVERET_USER="boss", LEVERET_PASSWORD=canaries["cli_env"])
        assert canaries.found_in(said) == [], said
    address = f"http://boss:{quote(canaries['cli_url'], safe='')}@127.0.0.1"
    for url in (f"{address}:{node.http}", f"{address}:1", f"{address}:nope", f"ftp://boss:{canaries['cli_url']}@h"):
        said = node.run("status", "--url", url)
        assert canaries.found_in(said) == [], said


# ---- mistakes of our own


@contextmanager
def _broken(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(*given: Any, **more: Any) -> Any:
        raise RuntimeError("a mistake of ours")

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, fail)
        yield


def test_mistakes_of_our_own_tell_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Tracebacks in the log, and answers with 500."""
    from leveret.auth import login, tokens
    from leveret.broker.definitions import DefinitionService
    from leveret.broker.parameters import ParameterService
    from leveret.broker.users import UserService
    from leveret.node.logs import JsonLines

    canaries = Canaries()
    answers: list[bytes] = []
    caplog.set_level(logging.DEBUG)
    with Broker({"log_level": "debug"}) as broker:
        boss = Api(broker)

        def ask(method: str, path: str, body: Any, api: Api = boss) -> None:
            reply = api.ask(method, path, body, decoded=False)
            assert reply.status == 500, reply
            answers.append(json.dumps(reply.headers).encode() + (reply.body or b""))

        with _broken(UserService, "put", monkeypatch):
            ask("PUT", "/users/u", {"password": canaries["user_put"], "tags": ""})
        with _broken(UserService, "hash", monkeypatch):
            ask("PUT", "/users/u", {"password": canaries["user_put"], "tags": ""})
            ask("POST", "/auth/hash_password", {"password": canaries["hash_password"]})
        with _broken(DefinitionService, "apply", monkeypatch):
            ask("POST", "/definitions", {"users": [{"name": "b", "password": canaries["definitions"], "tags": ""}]})
        with _broken(ParameterService, "put", monkeypatch):
            ask("PUT", "/parameters/shovel/%2F/s", {"value": {"src-uri": f"amqp://u:{quote(canaries['shovel'])}@h"}})
        with _broken(login, "verify_password", monkeypatch):
            ask("GET", "/whoami", None, Api(broker, "guest", canaries["http_bad"]))
            begun = time.perf_counter()
            with suppress(AMQPError, OSError):
                credentials = pika.PlainCredentials("guest", canaries["plain_bad"])
                pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, "/", credentials))
            # Not when the time for a handshake is over: a mistake ends the connection, and is told, at once.
            assert time.perf_counter() - begun < 5
        with _broken(tokens, "is_token", monkeypatch), _broken(login, "is_token", monkeypatch):
            Api(broker, token=canaries["bearer_bad"]).get("/whoami")
        time.sleep(0.1)
    records = [record for record in caplog.records if record.exc_info]
    assert len(records) >= 7
    logged = "\n".join([caplog.text, *(JsonLines().format(record) for record in caplog.records)]).encode()
    assert b"a mistake of ours" in logged
    assert canaries.found_in(logged) == []
    assert canaries.found_in(b"".join(answers)) == []


def test_settings_do_not_show_their_secrets() -> None:
    canaries = Canaries()
    settings = load_settings(
        None,
        {"auth.default_password": canaries["default_password"], "tls.key_password": canaries["key_password"]},
    )
    assert settings.auth.default_password == Secret(canaries["default_password"])
    shown = f"{settings!r} {settings} {settings.auth!r} {settings.tls!r} {settings.tls.key_password}"
    assert canaries.found_in(shown.encode()) == []
