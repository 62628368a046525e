"""The real SDK against the local endpoint: the same call, planned and recorded, with the bill the rules ask for."""

import http.client
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared_core.errors import InvalidInput, ScopeRequired
from shared_core.settings import Settings
from shared_core.short_term import Prompts
from shared_core.testing import FakeClock
from shared_core.testing.prompt_cache import PromptCache
from shared_core.testing.prompt_endpoint import PromptEndpoint

anthropic = pytest.importorskip("anthropic")

from shared_core.anthropic_client import PromptCachedAnthropic  # noqa: E402

MODEL = "claude-sonnet-5"
SYSTEM = "You are a careful assistant with many rules. " * 200
TOOL_CALL = [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"b": 1, "a": [True, None]}}]


class Memory:
    """The two things the client takes from a memory."""

    def __init__(self, clock, default="ada"):
        self._default = default
        self.prompts = Prompts(settings=Settings(), clock=clock, scope_of=self.scope_of)

    def scope_of(self, scope):
        if scope is None and self._default is None:
            raise ScopeRequired("scope: none")
        return scope if scope is not None else self._default


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def memory(clock):
    return Memory(clock)


@pytest.fixture
def endpoint(clock):
    with PromptEndpoint(clock=clock) as running:
        yield running


@pytest.fixture
def sdk(endpoint):
    with anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0) as client:
        yield client


def test_the_same_call_is_planned_and_its_usage_recorded(sdk, memory, endpoint, clock):
    """A second request half a minute later reads what the first wrote, and the ledger agrees with the bill."""
    client = PromptCachedAnthropic(sdk, memory)
    messages = [{"role": "user", "content": "Hello"}]
    first = client.messages.create(model=MODEL, max_tokens=100, system=SYSTEM, messages=messages)
    assert first.content[0].text == "Understood."
    clock.advance(30)
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "And now?"}]
    second = client.messages.create(model=MODEL, max_tokens=100, system=SYSTEM, messages=messages)
    assert second.usage.cache_read_input_tokens == first.usage.cache_creation_input_tokens > 1024
    stats = memory.prompts.stats()
    assert stats["requests"] == 2
    assert stats["read_tokens"] == second.usage.cache_read_input_tokens
    assert stats["hits"] == stats["expected_hits"] == 1
    assert endpoint.requests[1]["max_tokens"] == 100


def test_what_the_caller_passed_is_not_changed(sdk, memory):
    """Not the messages, not the tools, and the SDK's own objects in them stay what they were."""
    client = PromptCachedAnthropic(sdk, memory)
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hello " * 2000}]}]
    tools = [{"name": "z", "input_schema": {"type": "object"}}, {"name": "a", "input_schema": {"type": "object"}}]
    client.messages.create(model=MODEL, max_tokens=10, messages=messages, tools=tools)
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "Hello " * 2000}]}]
    assert [tool["name"] for tool in tools] == ["z", "a"]


def test_arguments_that_were_not_given_stay_away(sdk, memory, endpoint):
    """The SDK's marks for absent arguments are not sent."""
    PromptCachedAnthropic(sdk, memory).messages.create(
        model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "Hi"}], system=anthropic.NOT_GIVEN
    )
    assert set(endpoint.requests[0]) == {"model", "max_tokens", "messages"}


def test_session_and_volatile_plan_and_are_not_sent(sdk, memory, endpoint):
    """The breakpoint stands on the last stable block before the volatile one."""
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Ask"}, {"type": "text", "text": "recalled " * 50}]}
    ]
    PromptCachedAnthropic(sdk, memory, scope=lambda: "bo").messages.create(
        model=MODEL, max_tokens=10, system=SYSTEM, messages=messages, session="s", volatile=1
    )
    sent = endpoint.requests[0]
    assert {"session", "volatile", "scope", "now"}.isdisjoint(sent)
    assert "cache_control" in sent["messages"][0]["content"][0]
    assert "cache_control" not in sent["messages"][0]["content"][1]


def test_events_stream_through_and_their_usage_is_recorded(sdk, memory):
    """``stream=True`` gives the SDK's events; the prompt's usage is in the first."""
    client = PromptCachedAnthropic(sdk, memory)
    request = {"model": MODEL, "max_tokens": 10, "system": SYSTEM, "messages": [{"role": "user", "content": "Hi"}]}
    with client.messages.create(**request, stream=True) as stream:
        kinds = [event.type for event in stream]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert memory.prompts.stats()["written_5m_tokens"] > 1024


def test_the_stream_helper_accumulates_and_records(sdk, memory):
    """``messages.stream`` is the SDK's own stream inside."""
    client = PromptCachedAnthropic(sdk, memory)
    request = {"model": MODEL, "max_tokens": 10, "system": SYSTEM, "messages": [{"role": "user", "content": "Hi"}]}
    with client.messages.stream(**request) as stream:
        assert "".join(stream.text_stream) == "Understood."
        assert stream.get_final_message().usage.cache_creation_input_tokens > 1024
    assert memory.prompts.stats()["requests"] == 1


async def test_the_asynchronous_client_works_the_same(endpoint, memory, clock):
    """create, stream=True and stream, each planned and recorded."""
    request = {"model": MODEL, "max_tokens": 10, "system": SYSTEM, "messages": [{"role": "user", "content": "Hi"}]}
    async with anthropic.AsyncAnthropic(base_url=endpoint.url, api_key="none", max_retries=0) as sdk:
        client = PromptCachedAnthropic(sdk, memory)
        message = await client.messages.create(**request)
        assert message.usage.cache_creation_input_tokens > 1024
        clock.advance(5)
        events = [event async for event in await client.messages.create(**request, stream=True)]
        assert events[0].message.usage.cache_read_input_tokens == message.usage.cache_creation_input_tokens
        async with client.messages.stream(**request) as stream:
            assert await stream.get_final_text() == "Understood."
    assert memory.prompts.stats()["requests"] == 3
    assert memory.prompts.stats()["hits"] == 2


def test_tool_calls_come_back_as_the_sdk_knows_them(clock, memory):
    """A reply of tool calls, appended as it came, is sent on canonically and found again."""
    with PromptEndpoint(clock=clock, reply=TOOL_CALL) as endpoint:
        sdk = anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0)
        client = PromptCachedAnthropic(sdk, memory)
        messages = [{"role": "user", "content": "Look"}]
        with client.messages.stream(model=MODEL, max_tokens=10, system=SYSTEM, messages=messages) as stream:
            answer = stream.get_final_message()
        assert answer.stop_reason == "tool_use"
        messages += [
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}]},
        ]
        again = client.messages.create(model=MODEL, max_tokens=10, system=SYSTEM, messages=messages)
        assert again.usage.cache_read_input_tokens == answer.usage.cache_creation_input_tokens
        assert list(endpoint.requests[1]["messages"][1]["content"][0]["input"]) == ["a", "b"]
        sdk.close()


def test_the_provider_s_refusal_reaches_the_caller_as_the_sdk_s_error(sdk):
    """Without a plan, a fifth breakpoint is a 400 with the API's words."""
    block = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    with pytest.raises(anthropic.BadRequestError, match="maximum of 4 blocks"):
        sdk.messages.create(model=MODEL, max_tokens=1, messages=[{"role": "user", "content": [block] * 5}])


ASKED = {"model": MODEL, "max_tokens": 10, "messages": [{"role": "user", "content": "Hi"}]}


def posted(endpoint, body, path="/v1/messages"):
    """Status and answer of a body as it stands."""
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", path, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{bad", "not valid JSON"),
        (b"", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[]", "not a JSON object but list"),
        ({**ASKED, "messages": []}, "at least one message"),
        ({"model": MODEL, "max_tokens": 1}, "at least one message"),
        ({"model": MODEL, "messages": ASKED["messages"]}, "max_tokens: Field required"),
        ({**ASKED, "messages": "x"}, "malformed request"),
        ({**ASKED, "messages": [{"content": "x"}]}, "malformed request"),
        ({**ASKED, "messages": [{"role": "user", "content": [5]}]}, "malformed request"),
        ({**ASKED, "tools": 5}, "malformed request"),
        ({**ASKED, "model": None}, "malformed request"),
        ({**ASKED, "cache_control": 5}, "expected 'ephemeral'"),
    ],
)
def test_a_body_that_is_no_request_is_a_400_and_the_endpoint_goes_on(endpoint, body, says):
    """Never a dropped connection with a traceback in the log."""
    status, answer = posted(endpoint, body if isinstance(body, bytes) else json.dumps(body))
    assert status == 400
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert says in answer["error"]["message"]
    assert posted(endpoint, json.dumps(ASKED))[0] == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /v1/messages HTTP/1.1\r\nHost: x", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: -1", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: many", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked", b"400"),
        (b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999", b"413"),
        (b"PUT /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2", b"404"),
        (b"GET /v1/models HTTP/1.1\r\nHost: x", b"404"),
    ],
)
def test_what_is_not_read_is_answered_and_the_connection_closed(endpoint, head, status):
    """No length, no known length, too much, another method."""
    with socket.create_connection(("127.0.0.1", int(endpoint.url.rpartition(":")[2])), timeout=10) as client:
        client.sendall(head + b"\r\n\r\n")
        with client.makefile("rb") as answer:
            whole = answer.read()  # ends: the connection is closed
    assert whole.split()[1] == status
    assert b'{"type": "error"' in whole
    assert posted(endpoint, json.dumps(ASKED), "/v1/nowhere")[0] == 404


def test_a_reply_that_raises_is_a_500(clock):
    """The test's own function failed: the client is told what it said."""

    def broken(request):
        raise RuntimeError("no idea")

    with PromptEndpoint(clock=clock, reply=broken) as endpoint:
        assert posted(endpoint, json.dumps(ASKED)) == (
            500, {"type": "error", "error": {"type": "api_error", "message": "RuntimeError('no idea')"}}
        )  # fmt: skip


EVERY_KIND = [
    {"type": "thinking", "thinking": "hm, hm", "signature": "sig"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "server_tool_use", "id": "w", "name": "web_search", "input": {"query": "é"}},
    {"type": "web_search_tool_result", "tool_use_id": "w", "content": []},
    {"type": "text", "text": "é\U0001f600"},
]


def test_every_kind_of_block_streams_as_it_is_answered_whole(clock):
    """Thinking in its own deltas, inputs as JSON, what has neither in one piece."""
    with (
        PromptEndpoint(clock=clock, reply=EVERY_KIND) as endpoint,
        anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0) as sdk,
    ):
        with sdk.messages.stream(**ASKED) as stream:
            streamed = stream.get_final_message()
        whole = sdk.messages.create(**ASKED)
    assert [block.to_dict(exclude_none=True) for block in whole.content] == EVERY_KIND
    assert [block.to_dict(exclude_none=True) for block in streamed.content] == EVERY_KIND


def test_clients_that_leave_in_the_middle_disturb_nobody(clock, memory, capfd):
    """Twenty streams at once, every other one cut after its first bytes; the others end, and all were billed."""
    with (
        PromptEndpoint(clock=clock, reply="word " * 400_000) as endpoint,
        anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0) as sdk,
    ):
        client = PromptCachedAnthropic(sdk, memory)

        def ask(number):
            with client.messages.create(**ASKED, session=f"s{number}", stream=True) as stream:
                for event in stream:
                    if number % 2:
                        return event.type
                return event.type

        with ThreadPoolExecutor(20) as pool:
            last = list(pool.map(ask, range(20)))
        assert last == ["message_stop", "message_start"] * 10
        assert posted(endpoint, json.dumps(ASKED))[0] == 200
        assert len(endpoint.usages) == 21
    assert memory.prompts.stats()["requests"] == 20
    assert capfd.readouterr().err == ""


def test_everything_else_is_the_client_s_own(sdk, memory):
    """count_tokens, options and attributes pass through; beta messages are planned too."""
    client = PromptCachedAnthropic(sdk, memory)
    counted = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "Hello there"}])
    assert counted.input_tokens > 0
    assert client.base_url == sdk.base_url
    client.beta.messages.create(
        model=MODEL, max_tokens=10, system=SYSTEM, messages=[{"role": "user", "content": "Hi"}], betas=["x-1"]
    )
    client.with_options(timeout=5).messages.create(
        model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "Hi"}]
    )
    assert memory.prompts.stats()["requests"] == 2


def test_the_client_is_a_context_manager_and_its_copies_are_planned(endpoint, memory):
    """``with`` closes the client inside; ``copy`` is ``with_options`` under another name, and both count together."""
    with PromptCachedAnthropic(
        anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0), memory
    ) as client:
        client.copy(timeout=5).messages.create(
            model=MODEL, max_tokens=10, system=SYSTEM, messages=[{"role": "user", "content": "Hi"}]
        )
        assert client.with_options(timeout=5).counts is client.counts
    assert client.is_closed()
    assert memory.prompts.stats()["requests"] == 1


async def test_the_asynchronous_client_is_a_context_manager_too(endpoint, memory):
    async with PromptCachedAnthropic(
        anthropic.AsyncAnthropic(base_url=endpoint.url, api_key="none", max_retries=0), memory
    ) as client:
        await client.messages.create(model=MODEL, max_tokens=10, messages=[{"role": "user", "content": "Hi"}])
    assert client.is_closed()


HELLO = {"model": MODEL, "max_tokens": 10, "system": SYSTEM, "messages": [{"role": "user", "content": "Hi"}]}


def marked(body):
    return sum("cache_control" in block for block in body["system"])


def test_raw_responses_are_planned_and_recorded(sdk, memory, endpoint):
    """The response is the SDK's own, with its headers; its usage is in the ledger before anybody parses it."""
    client = PromptCachedAnthropic(sdk, memory)
    response = client.messages.with_raw_response.create(**HELLO, session="s")
    assert memory.prompts.stats()["requests"] == 1
    assert response.headers["request-id"] == "req_1"
    assert type(response) is type(sdk.messages.with_raw_response.create(**HELLO))
    assert response.parse().content[0].text == "Understood."
    assert memory.prompts.stats()["requests"] == 1
    assert marked(endpoint.requests[0]) == 1
    assert "session" not in endpoint.requests[0]


def test_responses_asked_of_the_whole_client_are_planned_and_recorded_too(sdk, memory, endpoint):
    """``client.with_raw_response.messages`` is the same call as ``client.messages.with_raw_response``."""
    client = PromptCachedAnthropic(sdk, memory)
    for number, ask in enumerate(
        (
            client.with_raw_response.messages,
            client.with_raw_response.beta.messages,
            client.beta.messages.with_raw_response,
        )
    ):
        assert ask.create(**HELLO).parse().content[0].text == "Understood."
        assert memory.prompts.stats()["requests"] == number + 1
    with client.with_streaming_response.messages.create(**HELLO) as response:
        assert response.parse().usage.cache_read_input_tokens > 1024
    assert memory.prompts.stats()["requests"] == 4
    assert [marked(body) for body in endpoint.requests] == [1] * 4


def test_parsed_answers_are_planned_recorded_and_taken_back_as_they_came(clock, memory):
    """What the SDK parsed out of an answer is not sent back with it."""
    pydantic = pytest.importorskip("pydantic")
    shape = pydantic.create_model("Count", count=(int, ...))
    with (
        PromptEndpoint(clock=clock, reply='{"count": 3}') as endpoint,
        anthropic.Anthropic(base_url=endpoint.url, api_key="none", max_retries=0) as sdk,
    ):
        client = PromptCachedAnthropic(sdk, memory)
        first = client.messages.parse(**HELLO, output_format=shape)
        assert first.parsed_output.count == 3
        said = [*HELLO["messages"], {"role": "assistant", "content": first.content}, {"role": "user", "content": "So?"}]
        again = client.beta.messages.parse(**{**HELLO, "messages": said}, output_format=shape)
        assert again.usage.cache_read_input_tokens > 1024
        answer = endpoint.requests[1]["messages"][1]["content"]
        assert [set(block) - {"cache_control"} for block in answer] == [{"type", "text"}]
    assert memory.prompts.stats()["requests"] == 2
    assert client.counts == {}


def test_a_raw_response_of_events_is_recorded_when_they_pass(sdk, memory):
    """Its ``parse`` gives the SDK's stream."""
    response = PromptCachedAnthropic(sdk, memory).messages.with_raw_response.create(**HELLO, stream=True)
    assert response.status_code == 200
    assert memory.prompts.stats()["requests"] == 0
    assert [event.type for event in response.parse()][-1] == "message_stop"
    assert memory.prompts.stats()["requests"] == 1


@pytest.mark.parametrize(
    ("take", "recorded"),
    [
        (lambda response: response.parse().content, 1),
        (lambda response: response.parse(to=dict[str, object])["content"], 1),
        (lambda response: response.json()["content"], 1),
        (lambda response: response.read(), 1),
        (lambda response: response.text(), 1),
        (lambda response: (response.parse(), response.json(), response.read()), 1),
        (lambda response: list(response.iter_bytes()), 0),
        (lambda response: list(response.iter_lines()), 0),
        (lambda response: response.headers["content-type"], 0),
    ],
    ids=["parse", "parse to", "json", "read", "text", "all", "bytes", "lines", "headers"],
)
def test_a_streaming_response_is_recorded_once_it_is_read_whole(sdk, memory, endpoint, take, recorded):
    """Whoever iterates over the bytes gets them untouched, and nothing is recorded."""
    with PromptCachedAnthropic(sdk, memory).messages.with_streaming_response.create(**HELLO) as response:
        assert take(response)
    assert memory.prompts.stats()["requests"] == recorded
    assert marked(endpoint.requests[0]) == 1


def test_a_streaming_response_of_events_is_recorded_when_they_pass(sdk, memory):
    """Also through the beta resource, whose ``parse`` is planned as well."""
    client = PromptCachedAnthropic(sdk, memory)
    with client.beta.messages.with_streaming_response.create(**HELLO, stream=True) as response:
        assert next(iter(response.parse())).type == "message_start"
    assert memory.prompts.stats()["requests"] == 1


async def test_the_asynchronous_client_s_raw_responses_are_planned_and_recorded(endpoint, memory):
    """Raw, raw events, and a response still to be read."""
    async with anthropic.AsyncAnthropic(base_url=endpoint.url, api_key="none", max_retries=0) as sdk:
        messages = PromptCachedAnthropic(sdk, memory).messages
        response = await messages.with_raw_response.create(**HELLO)
        assert response.status_code == 200
        assert memory.prompts.stats()["requests"] == 1
        response = await messages.with_raw_response.create(**HELLO, stream=True)
        events = response.parse()
        events = await events if hasattr(events, "__await__") else events
        assert next(iter([event.type async for event in events])) == "message_start"
        assert memory.prompts.stats()["requests"] == 2
        async with messages.with_streaming_response.create(**HELLO) as response:
            assert (await response.json())["content"]
            assert (await response.parse()).usage.cache_read_input_tokens > 1024
        assert memory.prompts.stats()["requests"] == 3
    assert [marked(body) for body in endpoint.requests] == [1, 1, 1]


def test_a_request_that_cannot_be_planned_is_sent_as_it_came(sdk, memory, endpoint, tmp_path, caplog):
    """A picture as a path is the SDK's to read: the answer comes, the log says why nothing was planned."""
    (tmp_path / "a.png").write_bytes(b"png")
    source = {"type": "base64", "media_type": "image/png", "data": tmp_path / "a.png"}
    client = PromptCachedAnthropic(sdk, memory)
    for messages in ([{"role": "user", "content": [{"type": "image", "source": source}]}] for _ in range(2)):
        answer = client.messages.create(**{**HELLO, "messages": iter(messages)}, session="s", volatile=0)
        assert answer.content[0].text == "Understood."
    assert [body["messages"][0]["content"][0]["source"]["data"] for body in endpoint.requests] == ["cG5n"] * 2
    assert {"session", "volatile"}.isdisjoint(endpoint.requests[0])
    assert client.counts == {"plan_failures": 2}
    assert memory.prompts.stats()["requests"] == 0
    assert "could not be planned" in caplog.text


@pytest.mark.filterwarnings("ignore:Pydantic serializer")
def test_a_usage_that_cannot_be_recorded_does_not_cost_the_answer(sdk, memory, clock):
    """A proxy that counts in fractions: create, events, the stream helper, raw responses."""

    class Fractions(PromptCache):
        def send(self, request, **how):
            return {**super().send(request, **how), "input_tokens": 0.5}

    with PromptEndpoint(cache=Fractions(clock=clock)) as endpoint, sdk.with_options(base_url=endpoint.url) as other:
        client = PromptCachedAnthropic(other, memory)
        assert client.messages.create(**HELLO).content[0].text == "Understood."
        assert [event.type for event in client.messages.create(**HELLO, stream=True)][-1] == "message_stop"
        with client.messages.stream(**HELLO) as stream:
            assert stream.get_final_text() == "Understood."
        assert client.messages.with_raw_response.create(**HELLO).parse().content[0].text == "Understood."
    assert client.counts == {"record_failures": 4}


def test_a_session_that_is_none_is_refused_before_anything_is_sent(sdk, memory, endpoint):
    """What is wrong in every call is said in the first."""
    with pytest.raises(InvalidInput, match="session: expected"):
        PromptCachedAnthropic(sdk, memory).messages.create(**HELLO, session="")
    assert endpoint.requests == []


async def test_counting_tokens_is_the_client_s_own_in_every_form(endpoint, sdk, memory):
    """Nothing is planned and nothing recorded: raw, beta, asynchronous, and the batches beside it."""
    client, request = PromptCachedAnthropic(sdk, memory), {k: v for k, v in HELLO.items() if k != "max_tokens"}
    plain = sdk.messages.count_tokens(**request).input_tokens
    assert client.messages.count_tokens(**request).input_tokens == plain
    assert client.beta.messages.count_tokens(**request).input_tokens == plain
    assert client.messages.with_raw_response.count_tokens(**request).parse().input_tokens == plain
    with client.messages.with_streaming_response.count_tokens(**request) as response:
        assert response.parse().input_tokens == plain
    async with anthropic.AsyncAnthropic(base_url=endpoint.url, api_key="none", max_retries=0) as other:
        assert (await PromptCachedAnthropic(other, memory).messages.count_tokens(**request)).input_tokens == plain
    assert client.messages.batches is sdk.messages.batches
    assert memory.prompts.stats()["requests"] == 0


def test_a_scope_is_required_and_a_client_is_a_client(sdk, clock):
    """The memory's rule for scopes holds; another object is refused with what to write."""
    client = PromptCachedAnthropic(sdk, Memory(clock, default=None))
    with pytest.raises(ScopeRequired):
        client.messages.create(model=MODEL, max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
    with pytest.raises(InvalidInput, match="expected an Anthropic client, got dict"):
        PromptCachedAnthropic({}, Memory(clock))


WITHOUT_THE_SDK = """
import sys
sys.modules["anthropic"] = None
from shared_core.anthropic_client import PromptCachedAnthropic
from shared_core.errors import MissingExtra
try:
    PromptCachedAnthropic(object(), object())
except MissingExtra as error:
    print(error)
"""


def test_without_the_sdk_the_file_imports_and_wrapping_names_the_extra():
    """Only who touches it needs it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_SDK], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("pip install '.[anthropic]'")
