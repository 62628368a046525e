"""Random conversations in Anthropic and OpenAI shape for the window's laws, and what makes a prompt invalid.

``faults`` is written from the providers' rules, without the code under test.
"""

from hypothesis import strategies as st

WORDS = st.sampled_from(["tea", "and wine", "茶和酒 很好", "x " * 30, "a longer answer of a few words", "ok"])


@st.composite
def conversations(draw, shape=None, damaged=False, systems=True, most_turns=8):
    """A list of messages; with ``damaged``, some are missing or stand twice, as after a crash."""
    shape = shape or draw(st.sampled_from(["anthropic", "openai"]))
    messages = []
    if systems and draw(st.booleans()):
        messages.append({"role": draw(st.sampled_from(["system", "developer"])), "content": draw(WORDS)})
    calls = 0
    for turn in range(draw(st.integers(1, most_turns))):
        if systems and draw(st.integers(0, 9)) == 0:
            messages.append({"role": "system", "content": f"rule {turn}"})
        messages.append({"role": "user", "content": f"question {turn} " + draw(WORDS)})
        for round_ in range(draw(st.integers(0, 3))):
            ids = [f"c{calls + i}" for i in range(draw(st.integers(1, 3)))]
            calls += len(ids)
            messages.append(calling(shape, ids, draw(st.booleans()) and f"think {turn}.{round_}"))
            messages += answering(shape, ids, [draw(WORDS) for _ in ids], draw(st.booleans()))
        messages.append({"role": "assistant", "content": thinking(shape, f"done {turn}", draw(st.booleans()))})
    if damaged:
        kept = [draw(st.sampled_from([0, 1, 1, 1, 1, 1, 2])) for _ in messages]
        messages = [message for message, times in zip(messages, kept, strict=True) for _ in range(times)]
    return messages


def thinking(shape, text, thinks):
    if shape == "openai" or not thinks:
        return text
    return [{"type": "thinking", "thinking": f"hm {text}", "signature": f"sig-{text}"}, {"type": "text", "text": text}]


def calling(shape, ids, thought):
    if shape == "openai":
        calls = [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": f'{{"q":"{id}"}}'}} for id in ids
        ]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    blocks = [{"type": "thinking", "thinking": thought, "signature": f"sig-{thought}"}] if thought else []
    return {
        "role": "assistant",
        "content": blocks + [{"type": "tool_use", "id": id, "name": "f", "input": {"q": id}} for id in ids],
    }


def answering(shape, ids, texts, together):
    if shape == "openai":
        return [{"role": "tool", "tool_call_id": id, "content": text} for id, text in zip(ids, texts, strict=True)]
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in zip(ids, texts, strict=True)]
    return (
        [{"role": "user", "content": blocks}]
        if together
        else [{"role": "user", "content": [block]} for block in blocks]
    )


def faults(messages):
    """What a provider would refuse about a prompt, as a list of sentences."""
    found = []
    talk = [message for message in messages if message["role"] not in ("system", "developer")]
    if [m for m in messages if m["role"] in ("system", "developer")] != messages[: len(messages) - len(talk)]:
        found.append("a system message does not stand first")
    if talk and (talk[0]["role"] != "user" or results_of(talk[0])):
        found.append("the first message is not a user's")
    waiting = []
    for message in talk:
        results = results_of(message)
        for id in results:
            if id not in waiting:
                found.append(f"the result {id} answers no call before it")
            else:
                waiting.remove(id)
        if waiting and not results:
            found.append(f"the calls {waiting} have no results")
            waiting = []
        if not results:
            waiting = calls_of(message)
    if waiting:
        found.append(f"the calls {waiting} have no results")
    return found


def blocks_of(message):
    return message["content"] if isinstance(message.get("content"), list) else []


def calls_of(message):
    return [b["id"] for b in blocks_of(message) if b["type"] == "tool_use"] + [
        call["id"] for call in message.get("tool_calls") or ()
    ]


def results_of(message):
    if message["role"] == "tool":
        return [message["tool_call_id"]]
    return [b["tool_use_id"] for b in blocks_of(message) if b["type"] == "tool_result"]


def thoughts_of(message):
    return [b for b in blocks_of(message) if b["type"] in ("thinking", "redacted_thinking")]
