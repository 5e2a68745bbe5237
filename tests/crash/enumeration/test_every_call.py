"""Every system call of a workload fails once, with every error it can give, and nothing that was confirmed is lost.

Enumerated, not sampled: `make crash` tries all of them. Otherwise it is a slice, which `LEVERET_CRASH_SEED` moves; a
finding says which call of which kind failed, with what, and how to see it again."""

import os
from pathlib import Path

import pytest

from tests.crash.enumeration.campaign import run_campaign

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(10_800 if os.environ.get("LEVERET_CRASH_ENUMERATION") else 600),
]


@pytest.mark.parametrize("is_first_start", [False, True], ids=["work", "first start"])
def test_every_call_may_fail(tmp_path: Path, is_first_start: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a workload on a directory after a kill; and of the start that makes the directory."""
    campaign, choice = run_campaign(tmp_path, is_first_start)
    with capsys.disabled():
        os.write(2, f"\n{choice.repeated_by}: {campaign.summary()}\n".encode())
    campaign.check(choice)
