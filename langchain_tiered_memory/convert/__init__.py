"""Every conversion between LangChain's types and the plain dicts of the core. No rules, no storage, no I/O.

``messages.py``: a message to a plain dict in OpenAI shape and back. ``answers.py``: what a model was asked and
answered, for the response cache. ``requests.py``: what a request shows. ``results.py``: what a tool returned, and memories as documents and lines.
"""

from langchain_tiered_memory.convert.answers import generations, request, response
from langchain_tiered_memory.convert.messages import (
    content,
    is_void,
    logged,
    message,
    plain,
    thinks,
    verbatim,
    with_block,
    without_thinking,
)
from langchain_tiered_memory.convert.requests import (
    asks_for_thinking,
    is_marked_from,
    place_of,
    shown,
    to_fit,
)
from langchain_tiered_memory.convert.results import document, line

__all__ = [
    "asks_for_thinking",
    "content",
    "document",
    "generations",
    "is_marked_from",
    "is_void",
    "line",
    "logged",
    "message",
    "place_of",
    "plain",
    "request",
    "response",
    "shown",
    "thinks",
    "to_fit",
    "verbatim",
    "with_block",
    "without_thinking",
]
