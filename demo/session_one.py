"""Session one: a LangChain agent is told things. ``python -m demo.session_one <file>``."""

from __future__ import annotations

import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from demo import script, show
from langchain_tiered_memory import TieredMemoryMiddleware
from shared_core import TieredMemory


class ScriptedChat(BaseChatModel):
    """A chat model that answers by ``demo/script.py``."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        question = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))
        result = messages[-1].text if isinstance(messages[-1], ToolMessage) else None
        answer = script.reply(question.partition("<recalled_memories>")[0], "\n".join(m.text for m in messages), result)
        if isinstance(answer, script.Call):
            call = {"name": answer.name, "args": answer.args, "id": f"call_{len(messages)}", "type": "tool_call"}
            message = AIMessage(content="", tool_calls=[call])
        else:
            message = AIMessage(content=answer)
        return ChatResult(generations=[ChatGeneration(message=message)])


def model() -> BaseChatModel:
    """The scripted model, or the real one where a key is set."""
    if not script.REAL:
        return ScriptedChat()
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model=script.MODEL)


def main(location: str) -> None:
    """Run the session; everything it leaves is in the file."""
    with TieredMemory.open(location) as memory:
        memory.tools.register("get_weather", ttl=3600)
        agent = create_agent(
            model(), [script.get_weather], system_prompt=script.SYSTEM,
            middleware=[TieredMemoryMiddleware(memory, scope=script.SCOPE, session="session-1", tools=["get_weather"])],
        )  # fmt: skip
        history: list[Any] = []
        for text in script.SESSION_ONE:
            show.said("Ada", text)
            before = script.executions
            history = agent.invoke({"messages": [*history, HumanMessage(text)]})["messages"]
            asked = [call["name"] for m in history[-4:] if isinstance(m, AIMessage) for call in m.tool_calls]
            if asked:
                show.note(
                    f"{asked[-1]}: " + ("executed" if script.executions > before else "served from the tool cache")
                )
            show.said("assistant", history[-1].text)
        tools = memory.stats()["mid_term"]["tools"]
        show.note(f"tool calls: {script.executions} executed, {tools['hits']} saved")


if __name__ == "__main__":
    main(sys.argv[1])
