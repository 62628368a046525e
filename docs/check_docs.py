"""The documentation keeps to the code: files it names exist, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
_FILE = re.compile(r"`((?:[\w.]+/)*[\w]+\.py)\b`?")
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")
_PLACES = ("", "shared_core/", "langchain_tiered_memory/", "llama_index_tiered_memory/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_a_page_names_exists(page: Path) -> None:
    """A reader who looks for a file that a page names finds it."""
    named = set(_FILE.findall(page.read_text()))
    missing = [name for name in named if not any((ROOT / place / name).exists() for place in _PLACES)]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """Links between pages work in a checkout."""
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing
