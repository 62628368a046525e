"""What the tests of the response cache start from."""

import itertools

from shared_core.mid_term.response_cache import ResponseCache
from shared_core.settings import Settings
from shared_core.testing import FakeClock
from tests.core.tool_cache_kit import scope_of


def cache(clock=None, blobs=None, ttl=86_400.0, scope_of=scope_of, generations=None, **settings):
    numbers = itertools.count(1)
    return ResponseCache(
        settings=Settings(**settings), clock=clock or FakeClock(), blobs=blobs, scope_of=scope_of, ttl=ttl,
        ids=lambda: f"fresh{next(numbers)}", generations=generations,
    )  # fmt: skip


def ask(text="hi", **more):
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}


def anthropic(text="hello", stop="end_turn", content=None, **more):
    content = [{"type": "text", "text": text}] if content is None else content
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": stop,
        "usage": usage,
        **more,
    }


def openai(text="hello", finish="stop", n=1, **message):
    choices = [
        {
            "index": i,
            "finish_reason": finish,
            "message": {"role": "assistant", "content": text and f"{text} {i}", **message},
        }
        for i in range(n)
    ]
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": choices, "usage": usage}


def call_block(id="toolu_1", **more):
    return {"type": "tool_use", "id": id, "name": "get", "input": {"a": 1}, **more}


def call_entry(id="call_1", arguments='{"a": 1}'):
    return {"id": id, "type": "function", "function": {"name": "get", "arguments": arguments}}


def conversation(prefix, *, noise):
    """A turn with a tool call and its result, in both shapes, as two runs would produce it."""
    n = f"{prefix}_{noise}"
    return [
        {"role": "user", "content": "go", "id": f"u{n}"},
        {
            "role": "assistant", "id": f"msg{n}", "content": [call_block(f"toolu{n}"), call_block(f"toolu{n}b")],
            "usage": {"input_tokens": len(n)}, "usage_metadata": {"total_cost": 0}, "cost": len(n), "cache": {"hit": True},
            "response_metadata": {"request_id": n, "model_provider": "p", "output_version": "v1"},
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": f"toolu{n}b", "content": "second"},
                {"type": "tool_result", "tool_use_id": f"toolu{n}", "content": "first", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call_entry(f"call{n}")]},
        {"role": "tool", "tool_call_id": f"call{n}", "content": "third", "artifact": {"n": n}},
    ]  # fmt: skip
