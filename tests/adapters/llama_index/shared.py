"""What several files of tests share: what is said and remembered, and a tool that counts how often it ran."""

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.memory import Memory

from llama_index_tiered_memory import cached_tools

FACT = "I take my coffee black."
QUESTION = "How do I take my coffee?"
OPENING = "<recalled_memories>"


def user(text):
    return ChatMessage(role="user", content=text)


def said(text):
    return ChatMessage(role="assistant", content=text)


def texts(messages):
    return [message.content for message in messages]


def blocks(messages):
    """The recalled blocks in a prompt, as (index of the message, text)."""
    return [
        (i, block.text) for i, message in enumerate(messages) for block in message.blocks
        if isinstance(block, TextBlock) and OPENING in block.text
    ]  # fmt: skip


class Counted:
    """A tool's function, and how often it ran with what."""

    def __init__(self):
        self.calls = []

    def lookup(self, city: str, unit: str = "C") -> str:
        """Look up the weather."""
        self.calls.append((city, unit))
        return f"{city} 20{unit}"


def cached(memory, tool, *, register: dict[str, Any] | None = None, **options):
    (out,) = cached_tools([tool], memory, **options)
    if register is not None:
        memory.tools.register(out.metadata.get_name(), **register)
    return out


def text(content, role="user", **extra):
    return ChatMessage(role=role, content=content, additional_kwargs=extra)


def contents(messages):
    return [message.content for message in messages]


def stock_memory(block, session, **options):
    return Memory.from_defaults(session_id=session, memory_blocks=[block], insert_method="user", **options)


def remembered(memory, **where):
    return sorted((found.role, found.text) for found in memory.long_term.list(**where))


def spoken(history):
    return [(message["role"], message["content"]) for message in history]


def prompt_text(prompt):
    return "\n".join(message.content or "" for message in prompt)
