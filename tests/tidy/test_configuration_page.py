"""docs/configuration.md has every setting, as it is declared; and every declaration says what its setting is for."""

from __future__ import annotations

import pytest

from leveret.node.config.declaring import declarations, section_names
from leveret.node.config.documentation import BEGIN, END, with_tables
from tests.tidy.tree import ROOT

PAGE = ROOT / "docs" / "configuration.md"


def test_the_tables_are_those_of_the_declarations() -> None:
    page = PAGE.read_text("utf-8")
    assert with_tables(page) == page, "run `make docs`"


def test_every_setting_is_in_a_row() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    for key in declarations():
        assert [line for line in lines if line.startswith(f"| `{key.rpartition('.')[2]}` |")], key


def test_every_setting_and_section_is_described() -> None:
    for key, declaration in declarations().items():
        assert declaration.description.endswith((".", "...")), key
    assert all(section_names().values())


def test_a_change_is_noticed_and_a_page_without_marks_refused() -> None:
    page = PAGE.read_text("utf-8")
    assert with_tables(page.replace("| `5672` |", "| `5673` |")) == page
    for mark in (BEGIN, END):
        with pytest.raises(ValueError, match="the page has no"):
            with_tables(page.replace(mark, ""))
