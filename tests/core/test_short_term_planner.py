"""What a planned request promises, with requests as callers make them and the provider's rules as the judge."""

import copy
import json
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InvalidInput, ScopeRequired
from shared_core.settings import Settings
from shared_core.short_term import ModelRules, Prompts
from shared_core.short_term.rules import UNKNOWN, rules_for
from shared_core.testing import FakeClock
from shared_core.testing.prompt_cache import PromptCache
from shared_core.testing.prompt_requests import conversation

MODEL = "claude-sonnet-5"  # at least 1024 tokens
SYSTEM = "word " * 2000
TOOLS = [{"name": n, "description": "what it does " * 300, "input_schema": {"type": "object"}} for n in "cab"]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def blocks(*texts, mark=None):
    made = [{"type": "text", "text": text} for text in texts]
    if mark:
        made[-1]["cache_control"] = {"type": "ephemeral", "ttl": mark}
    return made


def marks(plan):
    return [(mark.by, mark.position, mark.ttl) for mark in plan.breakpoints]


def marked_paths(request):
    found = [f"tools[{i}]" for i, tool in enumerate(request.get("tools", ())) if "cache_control" in tool]
    system = request.get("system")
    found += [f"system[{i}]" for i, b in enumerate(system if isinstance(system, list) else ()) if "cache_control" in b]
    for i, message in enumerate(request["messages"]):
        if isinstance(message["content"], list):
            found += [f"messages[{i}][{j}]" for j, b in enumerate(message["content"]) if "cache_control" in b]
    return found


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def prompts(clock):
    return Prompts(settings=Settings(), clock=clock, scope_of=lambda scope: scope if scope is not None else "ada")


def test_the_first_request_marks_the_last_tool_the_system_and_the_tail(prompts):
    """Before anything is learned: three breakpoints of five minutes, the fourth kept for an anchor."""
    plan = prompts.plan(model=MODEL, tools=TOOLS, system=SYSTEM, messages=[user("Hi")], max_tokens=10)
    assert marked_paths(plan.request) == ["tools[2]", "system[0]", "messages[0][0]"]
    assert {mark.ttl for mark in plan.breakpoints} == {"5m"}
    assert plan.request["max_tokens"] == 10
    assert plan.expected.read == 0
    assert plan.expected.total == plan.expected.written


def test_what_the_caller_passed_is_neither_changed_nor_handed_out(prompts):
    """Changing the request changes neither the caller's objects nor the next plan."""
    tools, system, messages = copy.deepcopy(TOOLS), blocks(SYSTEM), [user(blocks("Hi", "there"))]
    given = copy.deepcopy((tools, system, messages))
    plan = prompts.plan(model=MODEL, tools=tools, system=system, messages=messages, session="s")
    before = json.dumps(plan.request)
    plan.request["messages"][0]["content"][0]["text"] = "changed"
    plan.request["tools"][0]["input_schema"]["type"] = "changed"
    assert (tools, system, messages) == given
    assert (
        json.dumps(prompts.plan(model=MODEL, tools=tools, system=system, messages=messages, session="s").request)
        == before
    )
    messages[0]["content"][0]["text"] = "other"
    assert (
        prompts.plan(model=MODEL, messages=messages, session="s").request["messages"][0]["content"][0]["text"]
        == "other"
    )


def shuffled(value, rng):
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_the_order_of_tools_and_of_keys_changes_no_byte(seed):
    """A set of tools from a dict, an input that came back from a database: the same request byte for byte."""
    rng = random.Random(seed)
    call = {"type": "tool_use", "id": "t1", "name": "a", "input": {"b": 1, "a": {"z": [1.0, True, None], "y": "x"}}}
    messages = [user("Hi"), {"role": "assistant", "content": [call]}]
    made = []
    for _ in range(2):
        prompts = Prompts(settings=Settings(), clock=FakeClock(), scope_of=lambda _: "ada")
        tools = shuffled(rng.sample(TOOLS, 3), rng)
        for _ in range(2):  # the second plan follows the first one's conversation
            plan = prompts.plan(model=MODEL, tools=tools, messages=shuffled(messages, rng), session="s")
            made.append(json.dumps(plan.request))
    assert len(set(made)) == 1


def test_to_json_one_and_true_and_one_point_nought_are_three_things(prompts):
    """A conversation that differs in that alone is another one, and is sent as it is."""
    for value in (1, True, 1.0):
        call = {"type": "tool_use", "id": "t", "name": "n", "input": {"x": value}}
        plan = prompts.plan(model=MODEL, messages=[user("Hi"), {"role": "assistant", "content": [call]}], session="s")
        sent = plan.request["messages"][1]["content"][0]["input"]["x"]
        assert sent == value
        assert type(sent) is type(value)


def test_the_breakpoint_stands_on_the_last_stable_block_before_the_volatile_one(prompts):
    """Nothing is marked on the recalled block, which is another in the next turn."""
    plan = prompts.plan(model=MODEL, system=SYSTEM, messages=[user(blocks("Ask", "recalled"))], volatile=1)
    assert marked_paths(plan.request) == ["system[0]", "messages[0][0]"]


def test_a_changed_recalled_block_costs_the_prefix_nothing(prompts, clock):
    """The simulator reads up to the block before it, turn after turn."""
    cache = PromptCache(clock=clock)
    history = []
    for turn in range(4):
        asked = user(blocks(f"question {turn}", f"recalled {turn} " * 50))
        plan = prompts.plan(model=MODEL, system=SYSTEM, messages=[*history, asked], session="s", volatile=2 * turn + 1)
        usage = cache.send(plan.request)
        assert usage["cache_read_input_tokens"] == plan.expected.read
        assert (usage["cache_read_input_tokens"] > 2000) == (turn > 0)
        assert usage["input_tokens"] > 0  # the recalled block
        history += [user(blocks(f"question {turn}")), {"role": "assistant", "content": blocks(f"answer {turn}")}]
        clock.advance(60)


def test_volatile_counts_over_all_messages_and_is_checked(prompts):
    """Leading system messages count too, though they join the system; an index past the end is refused."""
    messages = [{"role": "system", "content": SYSTEM}, user(blocks("Ask", "recalled"))]
    plan = prompts.plan(model=MODEL, messages=messages, volatile=2)
    assert marked_paths(plan.request) == ["system[0]", "messages[0][0]"]
    assert plan.request["system"][0]["text"] == SYSTEM
    assert [message["role"] for message in plan.request["messages"]] == ["user"]
    with pytest.raises(InvalidInput, match="at most 3, got 4"):
        prompts.plan(model=MODEL, messages=messages, volatile=4)
    with pytest.raises(InvalidInput, match="volatile: expected 0 or more"):
        prompts.plan(model=MODEL, messages=messages, volatile=-1)


def test_inside_a_tool_loop_a_second_breakpoint_follows_the_frozen_block(prompts, clock):
    """Once loops were seen, the tail is marked behind the recalled block, and the one before it serves the next turn."""
    for turn in range(8):
        opened = user(blocks(f"question {turn}", f"recalled {turn} " * 100))
        loop = []
        for step in range(4):
            plan = prompts.plan(model=MODEL, system=SYSTEM, messages=[opened, *loop], session=f"s{turn}", volatile=1)
            loop += [
                {"role": "assistant", "content": [{"type": "tool_use", "id": f"t{step}", "name": "n", "input": {}}]},
                user([{"type": "tool_result", "tool_use_id": f"t{step}", "content": "seen " * 200}]),
            ]
            clock.advance(5)
    assert [mark.by for mark in plan.breakpoints][-2:] == ["stable", "after"]
    assert plan.breakpoints[-1].position == 1 + 2 + 6


def test_the_previous_tail_is_kept_as_an_anchor_when_the_new_one_is_too_far(prompts, clock):
    """25 calls and 25 results lie between two requests: without the anchor the breakpoint would see nothing."""
    cache = PromptCache(clock=clock, runs_are_one_position=False)
    messages = [user("Go " * 500)]
    first = prompts.plan(model=MODEL, system=SYSTEM, messages=messages, session="s")
    written = cache.send(first.request)["cache_creation_input_tokens"]
    ids = [f"t{i}" for i in range(25)]
    messages += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "n", "input": {}} for i in ids]},
        user([{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids]),
    ]
    clock.advance(20)
    second = prompts.plan(model=MODEL, system=SYSTEM, messages=messages, session="s")
    assert marks(second)[-2:] == [("anchor", 2, "5m"), ("tail", 52, "5m")]
    assert cache.send(second.request)["cache_read_input_tokens"] == written


def test_no_anchor_is_set_to_what_was_too_short_to_be_written(prompts):
    """Taken for 1 300 tokens, billed as 650, which is below the minimum: nothing is there that a breakpoint could find."""
    first = prompts.plan(model=MODEL, system="word " * 1300, messages=[user("Hi")], session="s")
    assert first.breakpoints
    prompts.record({"input_tokens": first.expected.total // 2}, plan=first)
    later = [user("Hi"), user(blocks(*["word " * 300] * 30))]
    plan = prompts.plan(model=MODEL, system="word " * 1300, messages=later, session="s")
    assert plan.expected.read == 0
    assert [mark.position for mark in plan.breakpoints if mark.tokens < 1024] == []
    assert {mark.by for mark in plan.breakpoints} == {"tail"}


def test_no_anchor_is_set_to_what_has_expired(prompts, clock):
    """After ten minutes nothing is there to be found."""
    messages = [user("Go " * 500)]
    prompts.plan(model=MODEL, system=SYSTEM, messages=messages, session="s")
    clock.advance(600)
    more = [*messages, assistant("done"), *[user(f"and {i}") for i in range(30)]]
    plan = prompts.plan(model=MODEL, system=SYSTEM, messages=more, session="s")
    assert "anchor" not in [mark.by for mark in plan.breakpoints]
    assert plan.expected.read == 0


def test_thinking_empty_text_and_calls_by_code_take_no_breakpoint(prompts):
    """The breakpoint goes to the last block before them that can take one."""
    content = [
        {"type": "text", "text": "Look " * 1500},
        {"type": "tool_use", "id": "c", "name": "n", "input": {}, "caller": {"type": "code_execution_20250825"}},
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": ""},
    ]
    plan = prompts.plan(model=MODEL, messages=[user("Hi"), {"role": "assistant", "content": content}])
    assert marked_paths(plan.request) == ["messages[1][0]"]


def test_nothing_below_the_model_s_minimum_is_marked(prompts):
    """1 000 tokens are too few for this model and enough for one whose minimum is 512."""
    assert prompts.plan(model=MODEL, system="word " * 1000, messages=[user("Hi")]).breakpoints == ()
    assert prompts.plan(model="claude-opus-5-5", system="word " * 1000, messages=[user("Hi")]).breakpoints


def test_a_caller_s_breakpoints_stay_and_count(prompts):
    """Four of the caller's leave no place for one of ours; lifetimes stay as asked."""
    system = [*blocks(SYSTEM, mark="1h"), *blocks("more", mark="1h")]
    messages = [user(blocks("Hi", mark="5m")), assistant(blocks("Hello", mark="5m")), user("Now")]
    plan = prompts.plan(model=MODEL, system=system, messages=messages)
    assert marks(plan) == [("caller", 1, "1h"), ("caller", 2, "1h"), ("caller", 3, "5m"), ("caller", 4, "5m")]
    assert plan.notes == ()


def test_of_more_than_four_breakpoints_of_the_caller_s_the_useful_stay(prompts):
    """The request would be refused for ever; its last breakpoint serves for those before it, and that is noted."""
    messages = [user(blocks("Hi " * 300, mark="5m")) for _ in range(6)]
    plan = prompts.plan(model=MODEL, system=SYSTEM, messages=messages)
    assert marked_paths(plan.request) == ["system[0]", "messages[5][0]"]
    assert "of the caller's 6 breakpoints the most useful are kept" in plan.notes[0]


def test_an_hour_after_five_minutes_becomes_five_minutes(prompts):
    """The API refuses lifetimes that grow along the prompt."""
    plan = prompts.plan(model=MODEL, system=blocks(SYSTEM, mark="5m"), messages=[user(blocks("Hi", mark="1h"))])
    assert marks(plan) == [("caller", 1, "5m"), ("caller", 2, "5m")]
    assert "became 5m" in plan.notes[0]


def test_an_automatic_breakpoint_counts_and_stays_at_the_top(prompts):
    """It takes one of the four places, and is left out where the caller's own take them all."""
    automatic = {"type": "ephemeral", "ttl": "5m"}
    plan = prompts.plan(model=MODEL, system=SYSTEM, messages=[user("Hi")], cache_control=automatic)
    assert plan.request["cache_control"] == automatic
    assert [mark.by for mark in plan.breakpoints] == ["system", "automatic"]
    four = [user(blocks("Hi " * 2000, mark="5m")) for _ in range(4)]
    plan = prompts.plan(model=MODEL, messages=[*four, user("Now")], cache_control=automatic)
    assert "cache_control" not in plan.request
    assert "automatic breakpoint was left out" in plan.notes[0]
    bedrock = prompts.plan(
        model="anthropic.claude-sonnet-4-5-v1:0", system=SYSTEM, messages=[user("Hi")], cache_control=automatic
    )
    assert "cache_control" not in bedrock.request
    assert marked_paths(bedrock.request)[-1] == "messages[0][0]"


def test_a_breakpoint_the_caller_moves_does_not_break_the_conversation(prompts, clock):
    """Content decides what is the same, not the marks on it."""
    base = [user(blocks("one " * 300)), assistant(blocks("two")), user(blocks("three"))]
    for place in range(3):
        messages = copy.deepcopy(base)
        messages[place]["content"][0]["cache_control"] = {"type": "ephemeral"}
        plan = prompts.plan(model=MODEL, system=SYSTEM, messages=messages, session="s")
        clock.advance(5)
    assert plan.expected.read == plan.expected.total


def talks(prompts, clock, session):
    """Three conversations that begin with the same word, in turns; what each request reads and what its predecessor held."""
    cache = PromptCache(clock=clock)
    said = {i: [user("Hello")] for i in range(3)}
    held = dict.fromkeys(said, 0)
    for _ in range(8):
        for i, messages in said.items():
            plan = prompts.plan(model=MODEL, system=SYSTEM, messages=messages, session=session)
            usage = cache.send(plan.request)
            yield usage["cache_read_input_tokens"], held[i], plan
            held[i] = usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
            messages += [assistant(f"answer {i} " * 50), user(f"question {i} {len(messages)} " * 50)]
            clock.advance(10)


@pytest.mark.parametrize("session", [None, "thread"])
def test_conversations_of_one_name_are_told_apart(prompts, clock, session):
    """Half the world begins with hello, and an agent shares its thread with its sub-agents: each is followed by itself, and
    every request reads what its last one held.
    """
    billed = list(talks(prompts, clock, session))
    assert all(read == held for read, held, _ in billed[3:])
    assert all(plan.expected.read == pytest.approx(read, rel=0.01) for read, _, plan in billed[6:])
    assert all("tail" in [mark.by for mark in plan.breakpoints] for _, _, plan in billed)
    assert prompts.clear_scope("ada") == 3


def test_a_branch_finds_what_its_origin_wrote_before_they_parted(prompts, clock):
    """Nine messages, taken up again behind the third: the end of the turn that was written there is read, by plan and by bill."""
    cache = PromptCache(clock=clock)
    said = [user("start " * 300)]
    ends = []
    for n in range(5):
        plan = prompts.plan(model=MODEL, system=SYSTEM, messages=said, session="s")
        cache.send(plan.request)
        ends.append(plan.breakpoints[-1].tokens)
        clock.advance(10)
        said = [*said, assistant(f"answer {n} " * 60), user(f"question {n} " * 60)]
    branch = [*said[:3], assistant("other " * 300), user("other question " * 60)]
    plan = prompts.plan(model=MODEL, system=SYSTEM, messages=branch, session="s")
    assert plan.expected.read == ends[1]
    assert cache.send(plan.request)["cache_read_input_tokens"] == pytest.approx(ends[1], rel=0.02)
    again = prompts.plan(model=MODEL, system=SYSTEM, messages=said, session="s")
    assert again.expected.read == ends[-1]
    assert prompts.clear_scope("ada") == 2


def test_a_branch_with_a_picture_finds_nothing_of_an_origin_without(prompts):
    """A picture anywhere is another prompt."""
    said = [user("start " * 300), assistant("a"), user("b"), assistant("c"), user("d")]
    prompts.plan(model=MODEL, system=SYSTEM, messages=said[:1], session="s")
    prompts.plan(model=MODEL, system=SYSTEM, messages=said, session="s")
    seen = [said[0], user([{"type": "image", "source": {"type": "file", "file_id": "f"}}])]
    plan = prompts.plan(model=MODEL, system=SYSTEM, messages=seen, session="s")
    assert plan.expected.read == plan.breakpoints[0].tokens  # the system


def test_a_conversation_without_a_session_that_goes_back_is_still_the_same_one(prompts):
    """Cut by less than half and continued otherwise; told to change an earlier message; with another recalled block at the end."""
    said = [user("Hello"), *(user(f"{n} " * 400) for n in range(9))]
    prompts.plan(model=MODEL, system=SYSTEM, messages=said)
    for changed in (
        [*said[:6], user("other " * 300)],
        [*said[:5], user("third")],
        [said[0], user("[cleared]"), *said[2:5], user("fourth")],
        [said[0], user("[cleared]"), *said[2:5], user("fifth"), user("more")],
    ):
        prompts.plan(model=MODEL, system=SYSTEM, messages=changed)
    assert prompts.clear_scope("ada") == 1


def test_of_many_that_begin_alike_the_sixteen_used_last_are_known(prompts):
    """The one that waited longest makes place; nothing grows without bound."""
    for n in range(40):
        prompts.plan(model=MODEL, messages=[user("Hello"), assistant(f"{n}"), user("So?"), user(f"{n}")])
    again = prompts.plan(model=MODEL, system=SYSTEM, messages=[user("Hello"), assistant("39"), user("So?"), user("39")])
    assert again.request["messages"][1]["content"] == "39"
    assert prompts.clear_scope("ada") == 16


def test_another_provider_s_request_and_openai_messages_come_back_clean(prompts):
    """No breakpoint, ours or the caller's, and the rest as it was, tools in order."""
    system, messages = blocks("Be kind", mark="5m"), [user(blocks("Hi", mark="5m"))]
    plan = prompts.plan(model="gpt-5.6", system=system, messages=messages, cache_control={"type": "ephemeral"}, n=1)
    assert plan.breakpoints == ()
    assert "cache_control" not in json.dumps(plan.request)
    assert plan.request["messages"][0] == {"role": "system", "content": blocks("Be kind")}
    assert plan.request["n"] == 1
    openai = [
        {"role": "system", "content": "Be kind"},
        user("Hi"),
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    plan = prompts.plan(model=MODEL, messages=openai)
    assert plan.breakpoints == ()
    assert plan.request["messages"] == openai


@pytest.mark.parametrize(
    ("model", "minimum", "read"),
    [
        ("claude-opus-5-5", 512, 0.05),
        ("claude-opus-5-20260724", 512, 0.1),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 1024, 0.1),
        ("anthropic.claude-sonnet-4-6", 2048, 0.1),
        ("claude-sonnet-4-6", 1024, 0.1),
        ("claude-3-5-haiku@20241022", 2048, 0.1),
        ("claude-fable-5-1", 512, 0.025),
        ("claude-fable-5-2", UNKNOWN.min_tokens, 0.1),
        ("claude-something-new", 4096, 0.1),
        ("anthropic/claude-opus-4.6", 4096, 0.1),
        ("anthropic/claude-haiku-5.5:fast", 512, 0.1),
        ("claude-fable-5.2", UNKNOWN.min_tokens, 0.1),
        ("Claude-Opus-5-5", 512, 0.05),
        ("claude-opus-4-20250514-v1:0", 1024, 0.1),
        ("claude-opus-4-1@20250805", 1024, 0.1),
    ],
)
def test_a_model_is_found_by_its_name_and_an_unknown_one_gets_safe_rules(model, minimum, read):
    """Dates and clouds around the name do not matter; another version is another model."""
    assert (rules_for(model).min_tokens, rules_for(model).read) == (minimum, read)


def test_a_rule_is_corrected_by_assigning_it(prompts):
    """The table is data of the caller's."""
    prompts.rules["claude-something-new"] = ModelRules(min_tokens=100, usd_per_mtok=7.0)
    plan = prompts.plan(model="claude-something-new-20270101", system="word " * 300, messages=[user("Hi")])
    assert plan.breakpoints
    assert plan.rules.usd_per_mtok == 7.0


def test_wrong_arguments_are_named(prompts):
    """Each error says what was expected and what came."""
    with pytest.raises(InvalidInput, match="messages: expected a list of messages, got dict"):
        prompts.plan(model=MODEL, messages={})
    with pytest.raises(InvalidInput, match="messages: expected dicts with 'role' and 'content'"):
        prompts.plan(model=MODEL, messages=["Hi"])
    with pytest.raises(InvalidInput, match="expected values that JSON can carry, got object"):
        prompts.plan(model=MODEL, messages=[user([{"type": "text", "text": object()}])])
    with pytest.raises(InvalidInput, match="tools: expected a list of dicts"):
        prompts.plan(model=MODEL, messages=[user("Hi")], tools="search")

    def none(_):
        raise ScopeRequired("scope: none")

    with pytest.raises(ScopeRequired):
        Prompts(settings=Settings(), clock=FakeClock(), scope_of=none).plan(model=MODEL, messages=[user("Hi")])


def test_one_scope_s_requests_teach_another_nothing(prompts, clock):
    """Conversations that are never continued lower the odds of their own scope only."""
    for i in range(30):
        prompts.plan(model=MODEL, system=f"{i} {SYSTEM}", messages=[user("Hi")], session=f"s{i}", scope="ada")
        clock.advance(400)
    ada = prompts.plan(model=MODEL, system=f"x {SYSTEM}", messages=[user("Hi")], session="x", scope="ada")
    bo = prompts.plan(model=MODEL, system=f"x {SYSTEM}", messages=[user("Hi")], session="x", scope="bo")
    assert ada.breakpoints == ()
    assert [mark.by for mark in bo.breakpoints] == ["system", "tail"]


def test_people_who_pause_for_minutes_get_the_hour(prompts, clock):
    """Ten pauses of ten minutes, and the whole conversation is written for an hour."""
    messages = [user("Hi")]
    for i in range(20):
        plan = prompts.plan(model=MODEL, system=SYSTEM, messages=messages, session="s")
        messages = [*messages, assistant(f"answer {i}"), user(f"question {i}")]
        clock.advance(600)
    assert {mark.ttl for mark in plan.breakpoints} == {"1h"}
    assert plan.breakpoints[-1].survival > 0.8


def without_marks(value):
    """The value without breakpoints, a text that stands alone as the one block it is."""
    if isinstance(value, dict):
        kept = {name: without_marks(item) for name, item in value.items() if name != "cache_control"}
        if "role" in kept and isinstance(kept["content"], str):
            kept["content"] = [{"type": "text", "text": kept["content"]}]
        return kept
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def said_by(request):
    """What a request says, whatever its breakpoints: tools by name, system as blocks."""
    said = without_marks({name: value for name, value in request.items() if name != "volatile"})
    said["tools"] = sorted(said.get("tools", []), key=lambda tool: tool["name"])
    if isinstance(said.get("system"), str):
        said["system"] = [{"type": "text", "text": said["system"]}]
    return said


@pytest.mark.parametrize("seed", range(200))
def test_the_provider_never_refuses_a_planned_request_and_it_says_what_the_caller_s_says(prompts, clock, seed):
    """Random conversations with breakpoints of the caller's in every place, allowed or not, and edits in place."""
    cache = PromptCache(clock=clock)
    for request in conversation(random.Random(seed)):
        before = copy.deepcopy(request)
        plan = prompts.plan(**request, session="s")
        assert request == before
        assert said_by(plan.request) == said_by(before)
        prompts.record(cache.send(plan.request), plan=plan)
        assert len(plan.breakpoints) <= 4
        assert all(mark.tokens >= plan.rules.min_tokens for mark in plan.breakpoints)
        clock.advance(30)


async def test_the_asynchronous_twins_answer_the_same(prompts):
    """They have nothing to wait for."""
    plan = await prompts.aplan(model=MODEL, system=SYSTEM, messages=[user("Hi")])
    await prompts.arecord({"input_tokens": 5}, plan=plan)
    assert (await prompts.astats())["requests"] == 1
    assert (await prompts.aexplain(plan, plan)).level is None


def test_a_plan_draws_itself_without_trusting_its_texts(prompts):
    """Names are escaped; every breakpoint is in the table, and in the strip with its lifetime and survival."""
    plan = prompts.plan(model="claude-<b>", system="word " * 6000, messages=[user("Hi")])
    drawn = plan._repr_html_()
    assert "<b>claude-&lt;b&gt;</b>" in drawn
    assert drawn.count("<tr>") == 1 + len(plan.breakpoints)
    for mark in plan.breakpoints:
        assert f">{mark.by} {mark.ttl} {mark.survival:.2f}</text>" in drawn
    assert drawn.count("<rect") == 2


def test_a_plan_of_thousands_of_blocks_is_drawn_small_and_whole(prompts):
    """Thin blocks are drawn together: the strip begins at 0 and ends at its full width, without holes."""
    messages = [user(blocks(*["so it goes"] * 50)) for _ in range(60)]
    drawn = prompts.plan(model=MODEL, system=SYSTEM, messages=messages)._repr_html_()
    spans = [(float(x), float(w)) for x, w in re.findall(r'<rect x="([\d.]+)" width="([\d.]+)"', drawn)]
    assert len(spans) < 500
    assert spans[0][0] == 0
    assert sum(spans[-1]) == pytest.approx(1000, abs=0.2)
    assert all(x + w == pytest.approx(after, abs=0.2) for (x, w), (after, _) in pairwise(spans))
    assert "blocks 2 to" in drawn


@pytest.mark.parametrize("block", [{"type": ["x"]}, {"type": {}}, {"type": "tool_result", "content": [7, None]}])
def test_blocks_of_no_known_shape_take_no_breakpoint_and_are_no_error(prompts, block):
    plan = prompts.plan(model=MODEL, messages=[{"role": "user", "content": [block]}])
    assert plan.request["messages"][0]["content"] == [block]
    assert marks(plan) == []
