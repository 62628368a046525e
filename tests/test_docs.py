"""Each page is one program from its first block to its last, and it runs as it stands."""

import ast
import asyncio
import importlib.metadata
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCKS = {
    page: re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    for page in ("guide.md", "langchain.md", "llama_index.md")
}


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def takes_a_chat_store():
    """Whether this release of LlamaIndex lets its Memory keep messages elsewhere than in its own SQL store."""
    from llama_index.core.memory import Memory

    return "chat_store" in inspect.signature(Memory.from_defaults).parameters


def has_an_anthropic_model():
    """Whether LlamaIndex's model for Anthropic runs here: it needs an SDK below 2."""
    try:
        importlib.metadata.version("llama-index-llms-anthropic")
        sdk = importlib.metadata.version("anthropic")
    except importlib.metadata.PackageNotFoundError:
        return False
    return int(sdk.partition(".")[0]) < 2


@pytest.mark.parametrize("page", BLOCKS)
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch):
    pytest.importorskip("langchain_classic")
    pytest.importorskip("llama_index.core")
    from langchain_core.globals import set_llm_cache
    from langchain_core.tools import tool

    from tests.adapters.langchain.fakes import ScriptedModel
    from tests.adapters.llama_index.conftest import Script

    monkeypatch.chdir(tmp_path)
    names = {
        "__name__": "page",
        "model": ScriptedModel(),
        "llm": Script(lambda _: "Black.").llm,
        "get_weather": get_weather,
        "weather_tool": tool(get_weather),
    }
    loop = asyncio.new_event_loop()
    try:
        for i, block in enumerate(BLOCKS[page]):
            if "TieredAsyncChatStore(" in block and not takes_a_chat_store():
                continue
            if "llama_index.llms.anthropic" in block and not has_an_anthropic_model():
                continue
            code = compile(block, f"{page} block {i}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            found = eval(code, names)  # noqa: S307  the project's own page
            if inspect.iscoroutine(found):
                loop.run_until_complete(found)
    finally:
        set_llm_cache(None)
        loop.close()
        names["memory"].close()


@pytest.mark.parametrize("package", ["langchain_tiered_memory", "llama_index_tiered_memory"])
def test_every_adapter_has_an_example(package):
    pytest.importorskip(package)
    shown = {
        name.strip()
        for imported in re.findall(
            rf"from {package} import (.*)", "\n".join("\n".join(blocks) for blocks in BLOCKS.values())
        )
        for name in imported.split(",")
    }
    assert shown == set(__import__(package).__all__)
