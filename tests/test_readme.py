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
    """Run a block as a program of its own; return its names and what it printed."""
    program = folder / "program.py"
    program.write_text(code)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names = runpy.run_path(str(program), init_globals=given)
    return names, printed.getvalue()


def test_the_first_program_prints_what_the_readme_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output = BLOCKS[0]
    names, printed = run(code, tmp_path)
    names["memory"].close()
    assert printed == output


def test_the_agent_of_the_readme_remembers_and_keeps_what_its_tool_said(tmp_path):
    pytest.importorskip("langchain")
    from langchain_core.globals import set_llm_cache
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import tool

    from shared_core import TieredMemory
    from tests.adapters.langchain.fakes import ScriptedModel, calling

    ran = []

    @tool
    def get_weather(city: str) -> str:
        """The weather."""
        ran.append(city)
        return "sunny"

    def answer(messages):
        done = isinstance(messages[-1], ToolMessage)
        return AIMessage("It is sunny.") if done else calling("get_weather", {"city": "Graz"}, id="a")

    model = ScriptedModel(script=[answer])
    try:
        with TieredMemory.open(tmp_path / "agent.db", embedder="none") as memory:
            code, output = BLOCKS[1]
            names, printed = run(code, tmp_path, memory=memory, model=model, tools=[get_weather])
            assert printed == output
            assert ran == ["Graz"]
            names["agent"].invoke({"messages": [{"role": "user", "content": "I take my coffee black."}]})
            assert memory.recall("coffee", scope="ada")[0].memory.text == "I take my coffee black."
            (line,) = re.findall(r"`(memory\.tools\.register\(.*?\))`", README)
            run(line, tmp_path, memory=memory)
            assert memory.tools.policy("now").writes == ()
    finally:
        set_llm_cache(None)


async def test_the_llama_index_agent_of_the_readme_recalls(tmp_path):
    pytest.importorskip("llama_index.core")
    from shared_core import TieredMemory
    from tests.adapters.llama_index.conftest import Script

    def get_weather(city: str) -> str:
        """The weather."""
        return f"sunny in {city}"

    script = Script(lambda _: "Black.")
    with TieredMemory.open(tmp_path / "agent.db", embedder="none", default_scope="ada") as memory:
        memory.remember("I take my coffee black.")
        names, _ = run(BLOCKS[2][0], tmp_path, memory=memory, llm=script.llm, get_weather=get_weather)
        assert await names["ask"]("How do I take my coffee?") == "Black."
        assert "I take my coffee black." in str(script.prompts[-1])
        (weather,) = names["agent"].tools
        assert weather.call(city="Graz").content == weather.call(city="Graz").content == "sunny in Graz"
        assert memory.tools.stats()["hits"] == 1
