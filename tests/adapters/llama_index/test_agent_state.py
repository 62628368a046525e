"""Agents with ``initial_state``: LlamaIndex writes the state around the last text of the prompt's last message.

What it means to wrap is the user's words. They are wrapped, what is recalled stays what it is, and neither the
state nor the recalled block ever reaches what is stored.
"""

from __future__ import annotations

import copy
import pickle

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import InsertMethod, Memory
from llama_index.core.workflow import Context

from llama_index_tiered_memory import TieredAgentMemory, TieredMemoryBlock

FACT = "I take my coffee black."
QUESTION = "How do I take my coffee?"
STATE = {"mood": "good"}
WRAPPED = f"Current state:\n{STATE}\n\nCurrent message:\n{QUESTION}\n"
OPENING, CLOSING = "<recalled_memories>", "</recalled_memories>"


def plus(a: int, b: int) -> int:
    """Add."""
    return a + b


def after_one_tool_round(messages):
    return "Black." if messages[-1].role == "tool" else [("plus", {"a": 1, "b": 2})]


def users(prompt):
    """The texts of the prompt's last user message, block by block."""
    message = [message for message in prompt if message.role == "user"][-1]
    return [block.text for block in message.blocks if isinstance(block, TextBlock)]


def run_by(kind, llm):
    agent = FunctionAgent(
        name="a", description="d", llm=llm, tools=[plus], system_prompt="Be kind.",
        initial_state=STATE if kind == "agent" else {},
    )  # fmt: skip
    return agent if kind == "agent" else AgentWorkflow(agents=[agent], root_agent="a", initial_state=STATE)


@pytest.mark.parametrize("kind", ["agent", "workflow"])
class TestTheAgentMemory:
    async def test_the_state_is_written_around_the_users_words_and_the_recalled_block_stays_as_it_is(
        self, kind, memory, script
    ):
        memory.remember(FACT)
        model = script(after_one_tool_round)
        kept = TieredAgentMemory(memory=memory, session_id="s")
        await run_by(kind, model.llm).run(user_msg=QUESTION, memory=kept)
        first, second = map(users, model.prompts)
        assert first[0] == WRAPPED
        assert first[1].startswith(OPENING)
        assert first[1].endswith(CLOSING)
        assert FACT in first[1]
        assert second == [QUESTION, first[1]], "LlamaIndex tells the state once a run; the block is frozen"
        assert len(first) == len(second) == 2

    async def test_what_is_stored_and_remembered_is_what_the_user_said(self, kind, memory, script):
        memory.remember(FACT)
        kept = TieredAgentMemory(memory=memory, session_id="s")
        runner = run_by(kind, script(lambda _: "Black.").llm)
        for _ in range(3):
            await runner.run(user_msg=QUESTION, memory=kept)
        assert [message.content for message in kept.get_all()] == [QUESTION, "Black."] * 3
        assert {found.text for found in memory.long_term.list()} == {FACT, QUESTION, "Black."}

    async def test_nothing_accumulates_over_turns_of_one_context(self, kind, memory, script):
        memory.remember(FACT)
        model = script(lambda _: "Black.")
        runner = run_by(kind, model.llm)
        context, kept = Context(runner), TieredAgentMemory(memory=memory, session_id="s")
        for i in range(3):
            await runner.run(user_msg=f"{QUESTION} {i}", memory=kept, ctx=context)
        for i, prompt in enumerate(model.prompts):
            whole = "\n".join(message.content or "" for message in prompt)
            assert whole.count("Current state:") == 1
            assert whole.count(OPENING) == whole.count(CLOSING) == 1
            assert f"Current message:\n{QUESTION} {i}\n" in whole


class TestTheBlockItself:
    @pytest.fixture
    def shown(self, memory):
        memory.remember(FACT)
        kept = TieredAgentMemory(memory=memory, session_id="s")
        kept.put(ChatMessage(role="user", content=QUESTION))
        return kept.get()[-1]

    @pytest.mark.parametrize("copied", [lambda m: m, copy.deepcopy, lambda m: m.model_copy(deep=True)])
    def test_whoever_rewrites_the_last_text_around_what_it_was_rewrites_the_users_words(self, shown, copied):
        message = copied(shown)
        recalled = message.blocks[-1].text
        for block in message.blocks[::-1]:
            block.text = f"[{block.text}]"
            break
        assert [block.text for block in message.blocks] == [f"[{QUESTION}]", recalled]

    def test_a_text_that_does_not_hold_it_replaces_it(self, shown):
        shown.blocks[-1].text = "nothing"
        assert [block.text for block in shown.blocks] == [QUESTION, "nothing"]

    def test_it_is_written_down_as_any_text(self, shown):
        plain = ChatMessage.model_validate(shown.model_dump(mode="json"))
        assert plain.blocks == [TextBlock(text=QUESTION), TextBlock(text=shown.blocks[1].text)]
        assert pickle.loads(pickle.dumps(shown)).content == shown.content  # noqa: S301

    def test_beside_an_image_without_words_it_is_wrapped_and_still_there(self, memory):
        memory.remember(FACT)
        kept = TieredAgentMemory(memory=memory, session_id="s")
        kept.put(ChatMessage(role="user", blocks=[ImageBlock(image=b"AAAA", image_mimetype="image/png")]))
        block = kept.get(input="coffee")[-1].blocks[-1]
        block.text = f"[{block.text}]"
        assert block.text.startswith(f"[{OPENING}")


async def test_with_the_stock_memory_and_our_block_the_same_holds(memory, script):
    memory.remember(FACT)
    model = script(after_one_tool_round)
    chat = Memory.from_defaults(
        session_id="s", memory_blocks=[TieredMemoryBlock(memory=memory)], insert_method=InsertMethod.USER
    )
    agent = FunctionAgent(llm=model.llm, tools=[plus], initial_state=STATE)
    for _ in range(2):
        await agent.run(QUESTION, memory=chat)
    for prompt in model.prompts[::2]:  # LlamaIndex tells the state with the first prompt of a run
        whole = "\n".join(message.content or "" for message in prompt)
        assert whole.count("Current state:") == 1
        assert f"Current message:\n{QUESTION}\n" in whole
        assert whole.count(OPENING) <= 1
    assert {found.text for found in memory.long_term.list()} == {FACT, QUESTION, "Black."}
