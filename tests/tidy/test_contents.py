"""What must not stand in the project's files: registry addresses in pins, paths of one machine, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.tidy.tree import text_files

PIN_FILE = re.compile(r"(lock|lock\.json|lock\.ya?ml|requirements/.*\.(txt|in)|requirements.*\.txt|constraints.*\.txt"
                      r"|\.pins|\.sha256|go\.sum|pom\.xml|\.npmrc|pip\.conf|uv\.toml)$")  # fmt: skip
ADDRESS = re.compile(r"https?://|index-url|find-links|trusted-host|\bregistry\s*=")
# In pieces, so that this file does not name what it looks for.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+)/")
SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE" + r" KEY-----"
    r"|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b|\bgithub_pat_\w{22,}|\bxox[abpr]-\w{10,}|\bpypi-AgE\w{20,}"
)  # fmt: skip


def found(pattern: re.Pattern[str], files: Iterable[tuple[Path, str]]) -> list[str]:
    """path:line: text of each line in which the pattern stands."""
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in files
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def pin_files(files: Iterable[tuple[Path, str]]) -> list[tuple[Path, str]]:
    return [(path, text) for path, text in files if PIN_FILE.search(str(path))]


def unhashed(files: Iterable[tuple[Path, str]]) -> list[str]:
    """Requirements that are not pinned to one version with a hash."""
    return [
        f"{path}: {line}"
        for path, text in files
        for line in text.replace("\\\n", " ").splitlines()
        if line and not line.lstrip().startswith("#") and not re.match(r"\S+==\S+ .*--hash=sha256:", line)
    ]


def test_pins_name_no_registry() -> None:
    assert found(ADDRESS, pin_files(text_files())) == []


def test_python_pins_are_exact_and_hashed() -> None:
    pins = [(path, text) for path, text in text_files() if path.parts[0] == "requirements"]
    assert len(pins) >= 4
    assert unhashed(pins) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert found(MACHINE_PATH, text_files()) == []


def test_no_file_holds_a_secret() -> None:
    assert found(SECRET, text_files()) == []


def test_addresses_in_pins_are_noticed() -> None:
    lock = '{"resolved": "https://registry.example/amqplib.tgz"}'
    files = [
        (Path("requirements/run.txt"), "--index-url somewhere\nclick==8.1\n"),
        (Path("tests/conformance/package-lock.json"), lock),
        (Path("README.md"), "https://example.org\n"),
    ]
    assert found(ADDRESS, pin_files(files)) == [
        "requirements/run.txt:1: --index-url somewhere",
        f"tests/conformance/package-lock.json:1: {lock}",
    ]


def test_loose_pins_are_noticed() -> None:
    tight = "click==8.1 ; python_version < '4' \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via leveret\n"
    assert unhashed([(Path("run.txt"), tight)]) == []
    assert unhashed([(Path("run.txt"), "click>=8.1 --hash=sha256:aa\nuvloop==1\n")]) == [
        "run.txt: click>=8.1 --hash=sha256:aa",
        "run.txt: uvloop==1",
    ]


def test_machine_paths_and_secrets_are_noticed() -> None:
    bad = ["cd /" + "work/main", "'/" + "root/.venv'", "see /" + "home/ann/x"]
    good = ["../shared/tools", "example.org/" + "work/", "a/" + "root/b", "/var/lib/leveret"]
    assert found(MACHINE_PATH, [(Path("a"), "\n".join(bad + good))]) == [
        f"a:{n}: {line}" for n, line in enumerate(bad, 1)
    ]
    keys = ["-----BEGIN RSA PRIVATE" + " KEY-----", "token = ghp" + "_" + "a" * 36, "AKIA" + "ABCDEFGHIJKLMNOP"]
    assert len(found(SECRET, [(Path("a"), "\n".join([*keys, "guest/guest"]))])) == 3
