"""The README's programs run as they stand, and print what it says."""

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n```\n(.*?)```)?", README, re.DOTALL)


def run(code, folder, **given):
    """Run a block as a program of its own; return its names."""
    program = folder / "program.py"
    program.write_text(code)
    return runpy.run_path(str(program), init_globals=given)


def test_the_first_program_prints_what_the_readme_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = BLOCKS[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names = run(code, tmp_path)
    names["memory"].close()
    assert printed.getvalue() == output


def test_the_agent_of_the_readme_remembers(tmp_path):
    pytest.importorskip("langchain")
    from shared_core import TieredMemory
    from tests.adapters.langchain.fakes import ScriptedModel

    with TieredMemory.open(tmp_path / "agent.db", embedder="none") as memory:
        names = run(BLOCKS[1][0], tmp_path, memory=memory, model=ScriptedModel(), tools=[])
        names["agent"].invoke({"messages": [{"role": "user", "content": "I take my coffee black."}]})
        assert memory.recall("coffee", scope="ada")[0].memory.text == "I take my coffee black."


def test_the_block_of_the_readme_is_made(tmp_path):
    pytest.importorskip("llama_index.core")
    from shared_core import TieredMemory

    with TieredMemory.open(tmp_path / "agent.db", embedder="none") as memory:
        names = run(BLOCKS[2][0].split("await")[0], tmp_path, memory=memory)
        assert names["chat"].memory_blocks[0].scope == "ada"
