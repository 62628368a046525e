"""Hand-written stand-ins for what a test must not reach: a chat model that replays a script and records requests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.llms import LLM
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import Field, PrivateAttr


class ScriptedModel(BaseChatModel):
    """Replays AIMessages in order (the last one for ever) and keeps every request it got, as it came.

    A script item may be a function of the messages. ``requests`` holds (messages, keywords).
    """

    script: list[Any] = Field(default_factory=lambda: [AIMessage("ok")])
    temperature: float = 0.0
    model: str = "scripted"
    n: int = 1
    _requests: list[tuple[list[BaseMessage], dict[str, Any]]] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    @property
    def requests(self) -> list[tuple[list[BaseMessage], dict[str, Any]]]:
        return self._requests

    @property
    def calls(self) -> int:
        return len(self._requests)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model, "temperature": self.temperature}

    def _get_invocation_params(self, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        return {**self._identifying_params, **super()._get_invocation_params(stop=stop, **kwargs)}

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with self._lock:
            item = self.script[min(len(self._requests), len(self.script) - 1)]
            self._requests.append(([m.model_copy(deep=True) for m in messages], kwargs))
        answers = [item(messages) if callable(item) else item] if self.n == 1 else item
        return ChatResult(
            generations=[
                ChatGeneration(
                    message=m.model_copy(deep=True), generation_info={"finish_reason": "stop", "logprobs": [0.5]}
                )
                for m in answers
            ]
        )

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Runnable[Any, Any]:
        named = sorted(getattr(tool, "name", str(tool)) for tool in tools)
        return self.bind(tools=named, tool_choice=tool_choice, **kwargs)


class ScriptedLLM(LLM):
    """A plain text model: echoes how often it was asked."""

    temperature: float = 0.0
    _count: int = PrivateAttr(default=0)

    @property
    def count(self) -> int:
        return self._count

    @property
    def _llm_type(self) -> str:
        return "scripted-llm"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"temperature": self.temperature}

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        self._count += 1
        return f"answer {self._count}"


def calling(name: str, args: dict[str, Any], id: str = "c1", **fields: Any) -> AIMessage:
    """An answer that calls one tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": id, "type": "tool_call"}], **fields)


def user(text: str) -> dict[str, Any]:
    """An agent's input: one message of the user's."""
    return {"messages": [HumanMessage(text)]}


class GatedEmbedder:
    """An embedder that stands still until the test lets it go; ``let_go`` tells if that ever happened.

    A hook that blocks the event loop blocks the test that would open the gate, and the wait runs out.
    """

    fingerprint = "gated"
    dimension = 2

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.let_go: list[bool] = []

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
        self.entered.set()
        self.let_go.append(self.gate.wait(5))
        return np.ones((len(texts), 2), np.float32)
