"""A conversation that is followed: what a plan keeps of the one before, and that nobody can reach into it."""

import copy
import json
import random

import pytest

from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.testing import FakeClock
from shared_core.testing.prompt_requests import conversation

MODEL = "claude-sonnet-5"


def said(text, **more):
    return {"role": "user", "content": [{"type": "text", "text": text, **more}]}


def called(number, **arguments):
    call = {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "look",
        "input": {"where": {"x": [number, 1.5, True]}, **arguments},
    }
    return {"role": "assistant", "content": [call]}


def found(number, text):
    parts = [{"type": "text", "text": text}]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": parts}]}


def talk(turns=6):
    return [
        message for i in range(turns) for message in (said(f"go {i} " * 200), called(i), found(i, f"seen {i} " * 200))
    ]


@pytest.fixture
def prompts():
    return Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda scope: scope or "ada")


def plan(prompts, messages, session="s"):
    return prompts.plan(model=MODEL, system="word " * 2000, messages=messages, session=session)


def fresh(messages):
    """What a planner that never saw the conversation sends, without its breakpoints."""
    alone = Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda _: "ada")
    return unmarked(plan(alone, messages).request["messages"])


def unmarked(messages):
    made = copy.deepcopy(messages)
    for message in made:
        if isinstance(message["content"], list):
            for block in message["content"]:
                block.pop("cache_control", None)
    return made


def text(message):
    message["content"][0]["text"] += "!"


def deep(message):
    message["content"][0]["input"]["where"]["x"][0] = 99


def typed(message):
    message["content"][0]["input"]["where"]["x"][2] = 1


def renamed(message):
    where = message["content"][0]["input"]
    where["there"] = where.pop("where")


def part(message):
    message["content"][0]["content"].append({"type": "text", "text": "more"})


def role(message):
    message["role"] = "assistant"


def added(message):
    message["content"].append({"type": "text", "text": "more"})


@pytest.mark.parametrize(
    ("change", "at"), [(text, 3), (deep, 4), (typed, 4), (renamed, 4), (part, 5), (role, 3), (added, 3)],
    ids=["text", "a nested number", "a number's type", "a nested key", "a part of a result", "the role", "a block"],
)  # fmt: skip
def test_a_change_inside_an_earlier_message_is_seen(prompts, change, at):
    """The list and the message are the same objects; what is sent is what they say now, and nothing behind it is expected."""
    messages = talk()
    before = plan(prompts, messages)
    change(messages[at])
    after = plan(prompts, messages)
    assert unmarked(after.request["messages"]) == fresh(messages)
    assert json.dumps(unmarked(after.request["messages"])) == json.dumps(fresh(messages))
    assert before.expected.written == before.expected.total
    assert after.expected.read == 2000  # the system


def test_a_breakpoint_put_into_an_earlier_message_is_seen(prompts):
    """It stays where the caller put it, and the conversation goes on."""
    messages = talk()
    plan(prompts, messages)
    messages[3]["content"][0]["cache_control"] = {"type": "ephemeral"}
    after = plan(prompts, messages)
    assert "caller" in [mark.by for mark in after.breakpoints]
    assert after.expected.read == after.expected.total
    del messages[3]["content"][0]["cache_control"]
    assert "caller" not in [mark.by for mark in plan(prompts, messages).breakpoints]


def test_an_earlier_plan_stays_what_it_was(prompts):
    """Plans share what did not change; growth, a cut and an edit of the conversation reach none of those before."""
    messages = talk(4)
    plans = [plan(prompts, messages[:6])]
    wanted = [json.dumps(plan(prompts, messages[:6]).request)]
    for later in (messages, messages[:3], [*messages[:3], said("else")], [said("new"), *messages[1:]], messages[:9]):
        made = plan(prompts, later)
        plans.append(made)
        wanted.append(json.dumps(copy.deepcopy(made.sendable)))
    assert [json.dumps(made.sendable) for made in plans[1:]] == wanted[1:]
    assert unmarked(json.loads(json.dumps(plans[0].request))["messages"]) == unmarked(json.loads(wanted[0])["messages"])


@pytest.mark.parametrize("seed", range(60))
def test_what_is_sent_and_what_is_handed_out_are_the_same_bytes(prompts, seed):
    """Random conversations with breakpoints of the caller's, followed and edited."""
    for request in conversation(random.Random(seed)):
        given = copy.deepcopy(request)
        made = prompts.plan(**request, session="s")
        assert json.dumps(made.sendable) == json.dumps(made.request)
        assert list(made.sendable) == list(made.request)
        assert request == given


def test_a_change_in_the_request_reaches_nothing_else(prompts):
    """Not the caller's messages, not the sendable of the same plan, not the next plan; every container is the caller's own."""
    flat = {"type": "tool_use", "id": "f", "name": "look", "input": {"query": "x", "most": 3}}
    pictures = [{"type": "image", "source": {"type": "url", "url": "u"}}, {"type": "text", "text": "two"}]
    quoted = {"type": "text", "text": "so", "citations": [{"cited_text": "x"}], "marks": ["a", 1]}
    messages = [
        *talk(),
        {"role": "assistant", "content": [quoted, flat]},
        {"role": "user", "content": "as a string"},
        {"role": "assistant", "content": [flat, flat], "beside": {"a": [1]}},
        {"role": "user", "content": pictures},
        *talk(1),
    ]
    given, made = copy.deepcopy(messages), plan(prompts, messages)
    sent, after = json.dumps(made.sendable), json.dumps(plan(prompts, messages, "t").request)

    def wreck(value):
        for item in list(value.values() if isinstance(value, dict) else value):
            if isinstance(item, dict | list):
                wreck(item)
        value.clear()

    wreck(made.request)
    assert messages == given
    assert json.dumps(made.sendable) == sent
    assert json.dumps(plan(prompts, messages, "t").request) == after
