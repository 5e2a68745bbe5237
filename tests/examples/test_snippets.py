"""Pages of documentation that are one script from top to bottom, cut out of the page and run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("queues.md", "dead-letters.md", "streams.md", "access.md", "client-blocking.md")
END = "connection.close()\nbroker.stop()\n"


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), flags=re.DOTALL)
    script = "\n".join([*snippets, END])
    assert "assert" in script
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    # What the broker logs is on stderr.
    assert result.returncode == 0, result.stderr
