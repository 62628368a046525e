"""Session two, another process: a LlamaIndex agent recalls. ``python -m demo.session_two <file>``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool

from demo import script, show
from llama_index_tiered_memory import TieredMemoryBlock, cached_tools
from shared_core import TieredMemory


def speak(messages: list[ChatMessage], **_: Any) -> ChatMessage:
    """One message of the scripted model."""
    texts = [message.content or "" for message in messages]
    question = next(text for m, text in zip(reversed(messages), reversed(texts), strict=True) if m.role == "user")
    result = texts[-1] if messages[-1].role == "tool" else None
    said = script.reply(question.rpartition("</memory>")[2], "\n".join(texts), result)
    if isinstance(said, script.Call):
        block = ToolCallBlock(tool_call_id=f"call_{len(messages)}", tool_name=said.name, tool_kwargs=said.args)
        return ChatMessage(role="assistant", blocks=[block])
    return ChatMessage(role="assistant", content=said)


def model() -> Any:
    """The scripted model, or the real one where a key is set."""
    if not script.REAL:
        return MockFunctionCallingLLM(response_generator=speak, is_chat_model=True)
    from llama_index.llms.anthropic import Anthropic

    return Anthropic(model=script.MODEL)


async def main(location: str) -> None:
    """Run the session on the file that session one left."""
    with TieredMemory.open(location) as memory:
        memory.tools.register("get_weather", ttl=3600)
        tools = cached_tools([FunctionTool.from_defaults(script.get_weather)], memory, scope=script.SCOPE)
        agent = FunctionAgent(llm=model(), tools=tools, system_prompt=script.SYSTEM)
        chat = Memory.from_defaults(
            session_id="session-2", insert_method="user",
            memory_blocks=[TieredMemoryBlock(memory=memory, scope=script.SCOPE)],
        )  # fmt: skip
        for text in script.SESSION_TWO:
            show.said("Ada", text)
            recalled = memory.recall(text, scope=script.SCOPE, k=1)
            show.note(f"recalled first: {recalled[0].memory.text}" if recalled else "nothing to recall")
            calls = _calls(memory)
            answer = str(await agent.run(text, memory=chat))
            if _calls(memory) != calls:
                show.note(
                    "get_weather: " + ("executed" if _calls(memory)[0] > calls[0] else "served from the tool cache")
                )
            show.said("assistant", answer)
        saved = memory.stats()["mid_term"]["tools"]
        show.note(f"tool calls: {script.executions} executed, {saved['hits']} saved")


def _calls(memory: TieredMemory) -> tuple[int, int]:
    return script.executions, memory.stats()["mid_term"]["tools"]["hits"]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
