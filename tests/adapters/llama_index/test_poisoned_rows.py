"""A row that cannot be read back (a tool's output, a value by key) is as if there were none, and counted."""

from __future__ import annotations

import pytest
from llama_index.core.agent.workflow import FunctionAgent

from llama_index_tiered_memory import TieredAgentMemory, TieredKVStore, cached_tools
from shared_core import Blob
from shared_core.storage import codec

POISON = {
    "another shape": {"answer": "Rome 20C"},
    "no blocks": {"tool_name": "lookup"},
    "a list": ["Rome 20C"],
    "a bare value": 20,
    "nothing": None,
    "blocks that are none": {"tool_name": "lookup", "blocks": "Rome 20C"},
    "a block of no known type": {"tool_name": "lookup", "blocks": [{"block_type": "hologram", "text": "x"}]},
    "a block without its field": {"tool_name": "lookup", "blocks": [{"block_type": "text", "text": {"a": 1}}]},
    "a type's name in the place of a type": {"tool_name": "lookup", "blocks": [{"block_type": ["text"], "text": "x"}]},
    "a name that is none": {"tool_name": None, "blocks": []},
}


class Weather:
    """A tool, and how often it ran."""

    def __init__(self):
        self.runs = 0

    def lookup(self, city: str) -> str:
        """Look up the weather."""
        self.runs += 1
        return f"{city} 20C"


@pytest.fixture
def weather():
    return Weather()


def opened(open_memory, weather):
    memory = open_memory()
    memory.tools.register("lookup")
    return memory, cached_tools([weather.lookup], memory)


@pytest.fixture(params=POISON.values(), ids=POISON.keys())
def poisoned(request, open_memory, weather, clock):
    """A fresh process over a file in which the value of the one row was replaced."""
    memory, (tool,) = opened(open_memory, weather)
    tool.call(city="Rome")
    (key,) = memory.storage.blobs.keys("ada", "tools", now=clock())
    (blob,) = memory.storage.blobs.get("ada", "tools", [key], now=clock())
    facts, _, _ = blob.value.partition(b"\n")
    poison = Blob(key, facts + b"\n" + codec.encode(request.param), blob.created_at, blob.expires_at, blob.tags)
    memory.storage.blobs.put("ada", "tools", [poison])
    memory.close()
    return opened(open_memory, weather)


def counts(memory):
    stats = memory.tools.stats()
    return stats["hits"], sum(stats["misses"].values()), stats["storage_errors"]


def test_it_is_a_miss_and_counted_and_the_next_call_a_hit(poisoned, weather, open_memory):
    memory, (tool,) = poisoned
    output = tool.call(city="Rome")
    assert (output.content, output.is_error, weather.runs) == ("Rome 20C", False, 2)
    hits, misses, errors = counts(memory)
    assert (hits, misses) == (0, 1)
    assert errors >= 1
    assert tool.call(city="Rome").content == "Rome 20C"
    other, (again,) = opened(open_memory, weather)
    assert again.call(city="Rome").content == "Rome 20C", "the row was written anew"
    assert (weather.runs, counts(other)) == (2, (1, 0, 0))


async def test_so_it_is_for_an_agent(poisoned, weather, script):
    memory, tools = poisoned
    model = script(lambda m: "Warm." if m[-1].role == "tool" else [("lookup", {"city": "Rome"})])
    agent = FunctionAgent(llm=model.llm, tools=tools)
    await agent.run("Weather?", memory=TieredAgentMemory(memory=memory, session_id="s"))
    assert model.prompts[1][-1].content == "Rome 20C"
    assert (weather.runs, counts(memory)[:2]) == (2, (0, 1))


@pytest.mark.parametrize("bound", [None, 10])
@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 100_000])
def test_a_value_by_key_that_is_no_dict_is_none_and_the_others_are_read(memory, raw, bound):
    kv = TieredKVStore(memory, max_items=bound)
    kv.put_all([("damaged", {"v": 1}), ("sound", {"v": 2})], "c")
    memory.storage.blobs.put("ada", "kv/c", [Blob("damaged", raw, 0.0)])
    assert kv.get("damaged", "c") is None
    assert kv.get_all("c") == {"sound": {"v": 2}}
    assert kv.counts["unreadable_rows"] == 2
    kv.put("damaged", {"v": 3}, "c")
    assert kv.get("damaged", "c") == {"v": 3}
