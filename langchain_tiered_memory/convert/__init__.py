"""Every conversion between LangChain's types and the plain dicts of the core. No rules, no storage, no I/O.

``messages.py``: a message to a plain dict in OpenAI shape and back. ``answers.py``: what a model was asked and
answered, for the response cache. ``results.py``: what a tool returned, and memories as documents and lines.
"""

from langchain_tiered_memory.convert.answers import generations, request, response
from langchain_tiered_memory.convert.messages import content, logged, message, plain, verbatim, with_block
from langchain_tiered_memory.convert.results import document, kept_result, line, tool_message

__all__ = [
    "content",
    "document",
    "generations",
    "kept_result",
    "line",
    "logged",
    "message",
    "plain",
    "request",
    "response",
    "tool_message",
    "verbatim",
    "with_block",
]
