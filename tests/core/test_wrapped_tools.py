"""Wrapping a function: slips are refused at once, and what a tool costs the cache is said."""

import logging

import pytest

from shared_core import InvalidInput, Settings, TieredMemory
from tests.core.tool_cache_kit import Counted, tool_cache


def read(path: str, limit: int = 10) -> str:
    return path[:limit]


def anything(**given):
    return given


@pytest.mark.parametrize("what", ["reads", "writes"])
@pytest.mark.parametrize("spec", ["pth", ["path", "pth"]])
def test_a_resource_named_after_no_parameter_is_refused_with_the_parameters_there_are(what, spec):
    with pytest.raises(InvalidInput, match=rf"{what}: expected parameters of read \(path, limit\), got 'pth'"):
        tool_cache().wrap(read, **{what: spec})


@pytest.mark.parametrize("fn", [anything, read])
def test_a_parameter_a_keyword_or_a_function_of_the_arguments_is_fine(fn):
    tools = tool_cache()
    tools.wrap(fn, reads="path")
    tools.wrap(fn, reads=lambda args: ["anywhere"])
    tools.memoize(fn, reads=["path"])


def test_a_slip_changes_nothing_that_was_registered():
    tools = tool_cache()
    tools.register("read", ttl=5)
    with pytest.raises(InvalidInput):
        tools.wrap(read, reads="pth")
    assert tools.policy("read").ttl == 5


@pytest.mark.parametrize("wrap", ["wrap", "memoize"])
def test_an_unknown_keyword_is_named(wrap):
    with pytest.raises(
        InvalidInput, match=r"tttl: expected keywords among name, scope, cacheable, ttl, .*, got 'tttl'"
    ):
        getattr(tool_cache(), wrap)(read, tttl=5)


@pytest.mark.parametrize("wrap", ["wrap", "memoize"])
def test_what_is_no_function_is_refused(wrap):
    with pytest.raises(InvalidInput, match=f"tools.{wrap}: expected a function, got 'read'"):
        getattr(tool_cache(), wrap)("read")


@pytest.mark.parametrize("wrap", ["wrap", "memoize"])
def test_both_are_decorators_bare_and_with_keywords(wrap):
    tools, ran = tool_cache(), []

    @getattr(tools, wrap)
    def bare(x):
        ran.append(x)
        return x

    @getattr(tools, wrap)(ttl=5)
    def timed(x):
        """Its own words."""
        ran.append(x)
        return x

    assert [bare(1), bare(1), timed(2), timed(2)] == [1, 1, 2, 2]
    assert ran == [1, 2]
    assert timed.__doc__ == "Its own words."
    assert {tools.policy(name).ttl for name in tools._known._policies} == {600.0, 5.0}


def test_executions_that_are_never_kept_are_counted_by_name():
    tools = tool_cache()
    for name in ("now", "book", "now"):
        tools.call(name, {}, Counted("x"))
    stats = tools.stats()
    assert (stats["bypassed"], stats["bypassed_tools"]) == (3, {"now": 2, "book": 1})


def test_names_that_a_model_makes_up_do_not_pile_up():
    tools = tool_cache()
    for i in range(1_100):
        tools.call(f"made up {i}", {}, Counted("x"))
    stats = tools.stats()
    assert stats["bypassed"] == 1_100
    assert len(stats["bypassed_tools"]) == 1_001
    assert stats["bypassed_tools"]["…"] == 100


def test_a_tool_nobody_registered_that_made_results_stale_is_named_once(caplog):
    tools, weather = tool_cache(), Counted("sunny")
    tools.register("weather")
    tools.call("now", {}, Counted("12:00"))
    assert not caplog.records  # it cost nothing yet
    for _ in range(3):
        tools.call("weather", {"city": "Graz"}, weather)
        tools.call("now", {}, Counted("12:00"))
    assert weather.calls == 3
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    said = caplog.records[0].getMessage()
    assert "tool 'now' is not registered" in said
    assert "1 cached results of its scope are stale" in said
    assert "memory.tools.register('now', cacheable=False, writes=[])" in said


def test_a_tool_that_was_declared_is_not_warned_about(caplog):
    tools, weather = tool_cache(), Counted("sunny")
    tools.register("weather")
    tools.register("now", cacheable=False, writes=[])
    tools.register("book", cacheable=False)  # whoever says so knows what it costs
    for name in ("now", "book"):
        tools.call("weather", {"city": "Graz"}, weather)
        tools.call(name, {}, Counted("x"))
    assert not caplog.records


@pytest.mark.parametrize("reads", ["orders", ["orders"]])
def test_a_resource_that_was_taken_for_an_argument_is_named_once(reads, caplog):
    """Whoever means a thing of that name would never see a hit, and never learn why."""
    tools, order = tool_cache(), Counted("open")
    tools.register("get_order", reads=reads)
    for _ in range(2):
        tools.call("get_order", {"order_id": "1"}, order)
    assert order.calls == 2
    (said,) = [record.getMessage() for record in caplog.records]
    assert "tool 'get_order': a result was not kept" in said
    assert "reads: expected an argument of the call (order_id), got 'orders'" in said
    assert "lambda args: ['orders']" in said


def test_a_function_of_resources_that_raises_is_named(caplog):
    tools = tool_cache()
    tools.register("get_order", reads=lambda args: [args["id"]])
    tools.call("get_order", {"order_id": "1"}, Counted("open"))
    (said,) = [record.getMessage() for record in caplog.records]
    assert "the function of its arguments raised KeyError('id')" in said


def test_an_argument_that_is_none_is_no_mistake(caplog):
    tools, read = tool_cache(), Counted("text")
    tools.register("read", reads="path")
    for _ in range(2):
        tools.call("read", {"path": None}, read)
    assert read.calls == 2
    assert not caplog.records


def test_repeats_tell_the_scopes_apart():
    tools = tool_cache()
    tools.register("search")
    for scope, times in (("ada", 3), ("bob", 2), ("eve", 1)):
        for _ in range(times):
            tools.call("search", {"q": 1}, Counted("x"), scope=scope)
    assert [(r["tool"], r["scope"], r["count"]) for r in tools.stats()["repeats"]] == [
        ("search", "ada", 3), ("search", "bob", 2),
    ]  # fmt: skip


async def test_after_the_memory_is_closed_a_wrapped_tool_is_the_tool_itself(tmp_path):
    memory, ran = TieredMemory.open(tmp_path / "m.db", embedder="none", default_scope="ada"), []

    @memory.tools.wrap
    def tool(x):
        ran.append(x)
        return x

    @memory.tools.wrap
    async def atool(x):
        ran.append(x)
        return x

    assert [tool(1), tool(1), await atool(1), await atool(1)] == [1, 1, 1, 1]
    memory.close()
    assert [tool(1), tool(1), await atool(1), await atool(1)] == [1, 1, 1, 1]
    assert await memory.tools.acall("tool", {"x": 1}, lambda x: ran.append(x)) is None  # noqa: PLW0108  its argument has a name
    assert len(ran) == 7
    assert memory.tools.stats()["after_close"] == 5
    request = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    assert memory.responses.call(request, lambda **_: {"content": "asked"}) == {"content": "asked"}
    assert memory.responses.put(request, {"content": "asked"}) is False


def test_the_sessions_of_a_scope_are_listed_in_the_order_of_their_first_message(tmp_path):
    with TieredMemory.open(tmp_path / "m.db", embedder="none", default_scope="ada", settings=Settings()) as memory:
        assert memory.sessions() == []
        for session, scope in (("s2", "ada"), ("s1", "ada"), ("s3", "bob"), ("s2", "ada")):
            memory.context(session, scope=scope).append({"role": "user", "content": "hello"})
        assert memory.sessions() == ["s2", "s1"]
        assert memory.sessions(scope="bob") == ["s3"]


def test_a_tool_whose_calls_cannot_be_told_apart_says_so_once_and_what_to_type(caplog):
    """What a framework fills in (a runtime, a store) is an argument like any other, and shows nothing to compare."""
    tools = tool_cache()

    class Runtime:
        pass

    def weather(city, runtime):
        return city

    told = tools.wrap(weather)
    assert [told("Rome", Runtime()) for _ in range(3)] == ["Rome"] * 3
    (record,) = caplog.records
    assert "'weather' is executed without the cache" in record.getMessage()
    assert "Runtime" in record.getMessage()
    assert "register the tool with key=" in record.getMessage()
    assert tools.stats()["misses"]["uncacheable"] == 3

    counted = Counted("Rome")
    by_city = tools.wrap(counted, name="by_city", key=lambda args: args["city"])
    assert [by_city(city="Rome", runtime=Runtime()) for _ in range(3)] == ["Rome"] * 3
    assert counted.calls == 1
