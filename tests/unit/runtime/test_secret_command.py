"""Commands that print a secret: bounded in time and output, and nothing of the secret is told."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from leveret.runtime import secret_command
from leveret.runtime.secret_command import OUTPUT_BYTES_MAX, TOLD_BYTES_MAX, CommandFailed, secret_printed_by


class Heard:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, text: str, **more: Any) -> None:
        self.lines.append(more["line"])


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    made = Heard()
    monkeypatch.setattr(secret_command, "log", made)
    return made


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_what_it_prints_is_the_secret(heard: Heard) -> None:
    assert secret_printed_by(python("print('s3cret')"), "a password") == b"s3cret\n"
    assert heard.lines == []


def test_there_is_no_shell(tmp_path: Path) -> None:
    words = ["/bin/echo", "$HOME;", "touch", str(tmp_path / "made")]
    assert secret_printed_by(words, "x") == f"$HOME; touch {tmp_path / 'made'}\n".encode()
    assert list(tmp_path.iterdir()) == []


def test_its_complaints_are_logged_without_the_secret(heard: Heard) -> None:
    code = "import sys; print('s3cret'); print('old token\\n\\nfound s3cret', file=sys.stderr)"
    assert secret_printed_by(python(code), "x") == b"s3cret\n"
    assert heard.lines == ["old token", "found ******"]


def test_failures_say_why_and_not_what(heard: Heard) -> None:
    with pytest.raises(CommandFailed, match="cannot be run: No such file"):
        secret_printed_by(["/no/such/command"], "x")
    with pytest.raises(CommandFailed, match="ended with status 3") as failed:
        secret_printed_by(python("import sys; print('s3cret'); sys.exit(3)"), "x")
    assert "s3cret" not in str(failed.value)


def test_one_that_does_not_end_is_ended(heard: Heard) -> None:
    began = time.monotonic()
    with pytest.raises(CommandFailed, match=r"within 0\.2 s"):
        # The child has the output too, and is ended as well.
        secret_printed_by(["/bin/sh", "-c", "sleep 600 & sleep 600"], "x", deadline_s=0.2)
    assert time.monotonic() - began < 60


def test_one_that_it_leaves_behind_is_not_waited_for(heard: Heard) -> None:
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); time.sleep(20); os._exit(0)\n"
        "print('s3cret', flush=True)\n"
    )
    began = time.monotonic()
    assert secret_printed_by(python(code), "x") == b"s3cret\n"
    assert time.monotonic() - began < 15


def test_output_is_bounded(heard: Heard) -> None:
    with pytest.raises(CommandFailed, match=f"more than {OUTPUT_BYTES_MAX} bytes"):
        secret_printed_by(python("while True: print('x' * 1000)"), "x")
    code = "import sys; sys.stderr.write('y' * 1000000); print('s')"
    assert secret_printed_by(python(code), "x") == b"s\n"
    assert len("".join(heard.lines)) <= TOLD_BYTES_MAX
