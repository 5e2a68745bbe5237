"""leveret-client: the client as a distribution of its own, without the broker and its libraries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from distributions.client.staging import client_files, client_modules, closure, named_in, stage
from leveret.testing import Broker
from tests.tidy.quick_compiler import quick_compiler
from tests.tidy.tree import ROOT

SOURCE = ROOT / "src"
SERVER_ROOMS = {
    *("broker", "catalog", "cli", "cluster", "links", "management", "node", "queues", "routing", "runtime", "session"),
    *("storage", "spark", "testing", "pytest_plugin", "__main__"),
}
# Imported by whoever asks for what needs them, see the extras.
OPTIONAL = {"psycopg", "psycopg_pool", "opentelemetry", "prometheus_client"}


def settings_of(path: Path) -> Any:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def ran(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- what is in it


def test_it_has_no_room_of_the_server() -> None:
    rooms = {path.parts[1].partition(".")[0] for path in client_files(SOURCE)}
    assert rooms == {"__init__", "client", "core", "errors", "py", "wire"}
    assert not rooms & SERVER_ROOMS


def test_it_has_what_the_client_is_and_nothing_of_the_data_plane_of_a_broker() -> None:
    names = {str(path) for path in client_files(SOURCE)}
    assert {
        "leveret/client/blocking/bridge.py",
        "leveret/core/client/channel_codec.pxd",
        "leveret/core/codec/octets.pxd",
    } <= names
    assert not names & {
        "leveret/core/queue/classic_queue.py",
        "leveret/core/log/journal.py",
        "leveret/wire/stream_commands.py",
    }
    assert not [name for name in names if name.endswith((".c", ".so"))]


IMPORT_ALL = """
import importlib, pkgutil, sys
import leveret
optional = set(sys.argv[1].split(","))
names = [found.name for found in pkgutil.walk_packages(leveret.__path__, "leveret.")]
for name in names:
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name.partition(".")[0] not in optional:
                raise
print(leveret.__file__)
print(*sorted(names))
"""


def test_every_module_in_it_finds_what_it_imports(tmp_path: Path) -> None:
    stage(tmp_path / "tree")
    output = ran(
        sys.executable,
        *("-c", IMPORT_ALL, ",".join(OPTIONAL)),
        cwd=tmp_path,
        LEVERET_PURE="1",
        PYTHONPATH=str(tmp_path / "tree/src"),
    )
    place, names = output.splitlines()
    assert Path(place).is_relative_to(tmp_path)
    assert client_modules(SOURCE) - {"leveret.client"} <= set(names.split()) | {"leveret.client"}


def test_its_settings_are_those_of_the_whole() -> None:
    ours, whole = settings_of(ROOT / "distributions/client/pyproject.toml"), settings_of(ROOT / "pyproject.toml")
    assert ours["build-system"] == whole["build-system"]
    for key in ("license", "requires-python"):
        assert ours["project"][key] == whole["project"][key]
    assert [name.partition(">")[0] for name in ours["project"]["dependencies"]] == ["msgspec"]
    assert set(ours["project"]["dependencies"]) <= set(whole["project"]["dependencies"])
    extras, others = ours["project"]["optional-dependencies"], whole["project"]["optional-dependencies"]
    assert set(extras) == {"postgres", "otel", "prometheus"}
    assert {name: extras[name] for name in extras.keys() & others} == {
        name: others[name] for name in extras.keys() & others
    }


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    package = tmp_path / "leveret"
    (package / "far/deep").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "a.py": "def late():\n    from leveret import b\n",
        "b.py": "import leveret.c as c\nimport os",
        "c.pxd": "from leveret.d cimport (\n    One,\n    Two as T,\n)\ncimport leveret.e\n# cimport leveret.not_me\n",
        "c.py": "from .far import deep",
        "d.py": "",
        "e.pxd": "",
        "far/__init__.py": "",
        "far/deep/__init__.py": "from ...f import thing",
        "f.py": "",
        "not_me.py": "",
        "nor_me.py": "import leveret.a",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    assert closure(tmp_path, {"leveret.a"}) == {
        "leveret",
        *(f"leveret.{name}" for name in ("a", "b", "c", "d", "e", "f", "far", "far.deep")),
    }
    assert "leveret.d.Two" in set(named_in(package / "c.pxd", "leveret.c"))


# ---- built and installed

SCRIPT = """
import asyncio, importlib.util, sys
from leveret.client import blocking, connect
from leveret.core.client import channel_codec
from leveret.wire.queue_methods import QueueDeclare

async def tell(url):
    async with connect(url) as connection:
        channel = await connection.channel()
        await channel.call(QueueDeclare("alone"))
        producer = connection.producer()
        await producer.publish(b"two coffees", routing_key="alone")
        await producer.close()

asyncio.run(tell(sys.argv[1]))
with blocking.connect(sys.argv[1]) as connection:
    delivery = connection.channel().get("alone")
    delivery.ack()
    print(delivery.body.decode())
for room in sys.argv[2].split(","):
    assert importlib.util.find_spec(f"leveret.{room}") is None, room
assert not {"structlog", "aiohttp", "uvloop", "click", "rich"} & set(sys.modules)
assert not channel_codec.__file__.endswith(".py"), channel_codec.__file__
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel that is made of it, in one folder."""
    folder = tmp_path_factory.mktemp("client")
    stage(folder / "tree")
    dist = folder / "dist"
    dist.mkdir()
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(dist)!r})"
    ran(sys.executable, "-c", build, cwd=folder / "tree")
    (sdist,) = dist.glob("*.tar.gz")
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", dist)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    ran(*pip, "wheel", *options, sdist, CC=quick_compiler(folder))
    return dist


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_wheel_has_every_file_and_no_other(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    version = settings_of(ROOT / "pyproject.toml")["project"]["version"]
    assert wheel.name.startswith(f"leveret_client-{version}-")
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    package = [path for path in names if path.parts[0] == "leveret"]
    assert sorted(path for path in package if path.suffix != ".so") == client_files(SOURCE)
    compiled = {path.with_name(path.name.partition(".")[0] + ".pxd") for path in package if path.suffix == ".so"}
    assert compiled == {path for path in package if path.suffix == ".pxd" and path.with_suffix(".py") in package}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_it_installs_alone_and_works(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    binaries = tmp_path / "venv" / "bin"
    ran(sys.executable, "-m", "venv", tmp_path / "venv")
    ran(binaries / "pip", "--disable-pip-version-check", "--quiet", "install", wheel)
    listing = ran(binaries / "pip", "--disable-pip-version-check", "list", "--format=freeze")
    assert {line.partition("==")[0] for line in listing.splitlines()} - {"pip", "setuptools"} == {
        "leveret-client",
        "msgspec",
    }
    with Broker() as broker:
        rooms = ",".join(sorted(SERVER_ROOMS))
        said = ran(binaries / "python", "-W", "error", "-c", SCRIPT, broker.url, rooms, cwd=tmp_path, PYTHONPATH="")
    assert said == "two coffees\n"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_a_compiler_it_says_so_instead_of_being_slow(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(sdist)],
        env={**os.environ, "CC": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert re.search(r"error: command .*'false", done.stdout + done.stderr, flags=re.IGNORECASE)
    assert not list(tmp_path.glob("*.whl"))
