"""The compiled parsers under AddressSanitizer and UBSan: the short form of `make fuzz-asan`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.sanitizer import SUITES, build, missing, run_control, run_suites, wanted_modules

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(missing() is not None, reason=f"no sanitizers: {missing()}"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sanitized") / "src"
    build(directory, wanted_modules(SUITES))
    return directory


@pytest.mark.parametrize(
    ("mistake", "report"),
    [
        ("read_behind(b'abc', 4)", "AddressSanitizer: heap-buffer-overflow"),
        ("add(2147483647, 1)", "runtime error: signed integer overflow"),
        ("read_misaligned(b'0123456789')", "runtime error: load of misaligned address"),
    ],
)
def test_a_known_mistake_is_caught(built: Path, mistake: str, report: str) -> None:
    """The control: without it, that nothing is found would say nothing."""
    done = run_control(built, mistake)
    assert (done.returncode != 0, report in done.stderr, done.stdout) == (True, True, ""), done.stderr[-2000:]


def test_the_parsers_make_none(built: Path) -> None:
    done = run_suites(built, SUITES, "--timeout=500", timeout=550)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
    assert " passed" in done.stdout
