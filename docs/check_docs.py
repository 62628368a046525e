"""The documentation keeps to the code: files it names exist, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
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


_ANCHOR = re.compile(r"\]\(([^)#:]*)#([^)]+)\)")


def _anchors(page: Path) -> set[str]:
    """What a page's headings can be linked by: lower case, spaces to hyphens, other signs dropped."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    """A reader lands at the place, not at the top of the page."""
    links = _ANCHOR.findall(page.read_text())
    missing = [(file, name) for file, name in links if name not in _anchors(page.parent / file if file else page)]
    assert not missing


_GIVEN = """
from llama_index.core.llms.function_calling import FunctionCallingLLM
from shared_core import TieredMemory

def program(memory: TieredMemory, llm: FunctionCallingLLM) -> None:
    def get_weather(city: str) -> str:
        return city

"""


def test_the_llama_index_program_of_the_readme_passes_a_strict_type_check(tmp_path: Path) -> None:
    """Who copies it gets no red line."""
    (block,) = re.findall(r"```python\n(from llama_index.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text(_GIVEN + textwrap.indent(block, "    "))
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
