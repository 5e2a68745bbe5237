"""Lists, after the run, the files that are getting full."""

from __future__ import annotations

import pytest

from tests.tidy.test_sizes import FILE_LINES_FULL, file_lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    full = {name: lines for name, lines in file_lines().items() if lines > FILE_LINES_FULL}
    if full:
        terminalreporter.section(f"files past {FILE_LINES_FULL} lines: does each still have one subject?")
        for name, lines in sorted(full.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{lines:5d} {name}")
