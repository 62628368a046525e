"""Each page is one program from its first block to its last; it runs as it stands, and again over the file it left."""

import ast
import asyncio
import contextlib
import importlib.metadata
import inspect
import io
import re
from pathlib import Path

import anthropic
import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCKS = {
    page.name: re.findall(r"```python\n(.*?)```(?:\n```\n(.*?)```)?", page.read_text(), re.DOTALL)
    for page in sorted(DOCS.glob("*.md"))
}
"""By page, each block with the output that the page shows under it ("" if none)."""


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


@pytest.mark.parametrize("page", [page for page in BLOCKS if BLOCKS[page]])
def test_every_block_of_a_page_runs_twice_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    pytest.importorskip("langchain_classic")
    pytest.importorskip("llama_index.core")
    pytest.importorskip("anthropic")
    from langchain_core.tools import tool

    from shared_core.testing.prompt_endpoint import PromptEndpoint
    from tests.adapters.langchain.fakes import ScriptedModel
    from tests.adapters.llama_index.conftest import Script

    monkeypatch.chdir(tmp_path)
    with PromptEndpoint() as endpoint, clients_closed(monkeypatch):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", endpoint.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        for _ in range(2):
            run(
                page,
                {
                    "__name__": "page",
                    "model": ScriptedModel(),
                    "llm": Script(lambda _: "Black.").llm,
                    "get_weather": get_weather,
                    "weather_tool": tool(get_weather),
                    "SYSTEM": "You know how everybody takes their coffee. " * 200,
                    "TOOLS": [{"name": "get_weather", "input_schema": {"type": "object", "properties": {}}}],
                },
            )


@contextlib.contextmanager
def clients_closed(monkeypatch):
    """Close the clients that a page makes, which leaves that to the reader's program."""
    made = []

    class Client(anthropic.Anthropic):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr(anthropic, "Anthropic", Client)
    try:
        yield
    finally:
        for client in made:
            client.close()


def run(page, names):
    """The page's blocks in order, in these names; what a block prints is compared where the page shows it."""
    from langchain_core.globals import set_llm_cache

    loop = asyncio.new_event_loop()
    try:
        for i, (block, output) in enumerate(BLOCKS[page]):
            if "TieredAsyncChatStore(" in block and not takes_a_chat_store():
                continue
            if "llama_index.llms.anthropic" in block and not has_an_anthropic_model():
                continue
            code = compile(block, f"{page} block {i}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                found = eval(code, names)  # noqa: S307  the project's own page
                if inspect.iscoroutine(found):
                    loop.run_until_complete(found)
            assert not output or printed.getvalue() == output
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
            rf"from {package} import (.*)", "\n".join(block for blocks in BLOCKS.values() for block, _ in blocks)
        )
        for name in imported.split(",")
    }
    assert shown == set(__import__(package).__all__)
