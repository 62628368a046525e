"""A call of a registered tool is paid for once, and its result belongs to whoever receives it."""

import copy
import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from shared_core.errors import ScopeRequired
from shared_core.mid_term.values import Uncached
from tests.core.tool_cache_kit import Counted, no_default, tool_cache


@pytest.fixture
def tools():
    cache = tool_cache()
    cache.register("search")
    return cache


@pytest.mark.parametrize("value", [None, False, "", 0, [], 0.0, (), {}, b"", set()])
def test_every_value_is_a_hit_the_second_time_also_the_empty_ones(tools, value):
    tool = Counted(value)
    first = tools.call("search", {"q": 1}, tool)
    second = tools.call("search", {"q": 1}, tool)
    assert (first, second, tool.calls) == (value, value, 1)
    assert type(second) is type(value)
    assert tools.stats()["hits"] == 1


def test_only_registered_tools_are_cached(tools):
    booking = Counted("booked")
    assert [tools.call("book", {"seat": 1}, booking) for _ in range(2)] == ["booked"] * 2
    assert booking.calls == 2
    assert tools.stats()["bypassed"] == 2


@pytest.mark.parametrize(("one", "other"), [
    ({"city": "Paris"}, {"city": "Rome"}),
    ({"n": 1}, {"n": 1.0}), ({"n": 1}, {"n": True}), ({"n": 1}, {"n": "1"}), ({"n": b"1"}, {"n": "1"}), ({"n": None}, {}),
    ({"n": [1, 2]}, {"n": [2, 1]}), ({"n": (1,)}, {"n": [1]}), ({"n": 0.0}, {"n": -0.0}),
])  # fmt: skip
def test_calls_with_different_arguments_never_share(tools, one, other):
    tool = Counted(make=lambda **args: repr(args))
    assert tools.call("search", one, tool) == repr(one)
    assert tools.call("search", other, tool) == repr(other)


def test_the_order_of_arguments_does_not_matter(tools):
    tool = Counted("x")
    tools.call("search", {"a": {"x": 1, "y": 2}, "b": 2}, tool)
    tools.call("search", {"b": 2, "a": {"y": 2, "x": 1}}, tool)
    assert tool.calls == 1


def test_names_versions_spaces_and_scopes_never_share():
    tools = tool_cache()
    tool = Counted(make=lambda: object.__repr__(object()))
    seen = []
    for name, options in [("a", {}), ("b", {}), ("a", {"version": "2"}), ("a", {"space": "s"}), ("a", {"space": "t"})]:
        tools.register(name, **options)
        seen += [tools.call(name, {}, tool, scope=scope) for scope in ("ada", "ben")]
    assert tool.calls == 10


def test_a_named_space_shares_invalidation_between_scopes_and_never_values():
    tools = tool_cache()
    tools.register("get", reads="item", space="crm")
    tool = Counted(make=lambda item: [item])
    tools.call("get", {"item": "7"}, tool, scope="ada")
    tools.call("get", {"item": "7"}, tool, scope="ben")
    assert tool.calls == 2


def test_a_call_without_a_scope_or_a_default_is_refused():
    tools = tool_cache(scope_of=no_default)
    tools.register("search")
    with pytest.raises(ScopeRequired):
        tools.call("search", {}, lambda: 1)


def test_defaults_of_the_function_are_part_of_the_key(tools):
    def search(q, limit=10):
        return [q, limit]

    ran = []

    def counted(q, limit=10):
        ran.append(q)
        return search(q, limit)

    tools.call("search", {"q": "x"}, counted)
    assert tools.call("search", {"q": "x", "limit": 10}, counted) == ["x", 10]
    assert tools.call("search", {"q": "x", "limit": 11}, counted) == ["x", 11]
    assert len(ran) == 2


def made_of():
    def f(a, b=2, /, c=3, *rest, d=4, e, **more):
        return a, b, c, rest, d, e, more

    return f


def test_defaults_are_found_alike_whatever_kind_of_function_it_is():
    from shared_core.mid_term.tools import defaults

    plain = made_of()
    assert dict(defaults(plain)) == {"b": 2, "c": 3, "d": 4}
    assert dict(defaults(functools.wraps(plain)(lambda *a, **k: None))) == {"b": 2, "c": 3, "d": 4}
    assert dict(defaults(functools.partial(plain, 1))) == {"b": 2, "c": 3, "d": 4}
    assert defaults(lambda x: x) == ()


@pytest.mark.parametrize("arguments", [{"x": float("nan")}, {"x": object()}, {"x": lambda: 1}, {"x": threading.Lock()}])
def test_arguments_that_cannot_be_compared_are_executed_and_counted(tools, arguments):
    """A live object in the arguments must neither be a key that never hits nor grow the cache."""
    tool = Counted("x")
    for _ in range(3):
        assert tools.call("search", arguments, tool) == "x"
    assert tool.calls == 3
    stats = tools.stats()
    assert (stats["misses"]["uncacheable"], stats["entries"]) == (3, 0)


def test_an_explicit_key_stands_for_arguments_that_cannot_be_compared(tools):
    tools.register("ask", key=lambda args: args["client"].user)

    class Client:
        def __init__(self, user):
            self.user = user

    tool = Counted(make=lambda client: client.user)
    assert tools.call("ask", {"client": Client("ada")}, tool) == "ada"
    assert tools.call("ask", {"client": Client("ada")}, tool) == "ada"
    assert tools.call("ask", {"client": Client("ben")}, tool) == "ben"
    assert tool.calls == 2
    assert tools.invalidate("ask", {"client": Client("ada")}) == 1


def test_a_value_changed_by_its_receiver_is_unchanged_for_the_next():
    """Copied in and copied out: neither the first caller's object nor any later one is the kept one."""
    tools = tool_cache()

    class Row:  # deep-copied; the dict below goes through typed JSON
        def __init__(self):
            self.cells = [1]

    for name, make in (("dict", lambda: {"rows": [1]}), ("object", Row)):
        tools.register(name)

        def cells(value):
            return value["rows"] if isinstance(value, dict) else value.cells

        cells(tools.call(name, {}, make)).append(2)
        second = tools.call(name, {}, make)
        assert cells(second) == [1]
        cells(second).append(3)
        assert cells(tools.call(name, {}, make)) == [1]


def test_on_request_the_very_object_is_handed_out():
    tools = tool_cache()
    tools.register("model", copy=False)
    made = tools.call("model", {}, lambda: [threading.Lock()])
    assert tools.call("model", {}, lambda: 1) is made


def test_a_value_that_cannot_be_copied_is_handed_out_uncached_and_counted(tools):
    def stream():
        return (i for i in range(3))

    assert list(tools.call("search", {}, stream)) == [0, 1, 2]
    assert list(tools.call("search", {}, stream)) == [0, 1, 2]
    stats = tools.stats()
    assert (stats["misses"]["uncacheable"], stats["hits"], stats["entries"]) == (2, 0, 0)


def test_a_value_that_can_be_copied_only_once_is_no_hit_and_no_error(tools):
    class Fragile:
        copies = 0

        def __deepcopy__(self, memo):
            Fragile.copies += 1
            if Fragile.copies > 1:
                raise RuntimeError("no more")
            return self

    tool = Counted(make=Fragile)
    for _ in range(2):
        assert isinstance(tools.call("search", {}, tool), Fragile)
    assert tool.calls == 2


def test_an_exception_is_raised_and_not_kept(tools):
    tool = Counted(make=lambda: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            tools.call("search", {}, tool)
    assert tool.calls == 2


@pytest.mark.parametrize("apology", [
    {"content": "timeout", "is_error": True}, {"content": [], "isError": True}, {"status": "error", "content": "down"},
    type("ToolMessage", (), {"status": "error"})(),
])  # fmt: skip
def test_a_result_that_says_it_is_an_error_does_not_outlive_the_outage(tools, apology):
    tools.call("search", {}, lambda: apology)
    assert tools.call("search", {}, lambda: "well again") == "well again"


def test_a_function_can_ask_not_to_be_kept(tools):
    tool = Counted(Uncached("once"))
    assert [tools.call("search", {}, tool), tools.call("search", {}, tool), tools.call("new", {}, tool)] == ["once"] * 3
    assert tool.calls == 3


@pytest.mark.parametrize("copy", [True, False])
def test_a_value_that_is_one_callers_alone_is_neither_kept_nor_shared_with_who_waits_for_it(copy):
    tools = tool_cache()
    tools.register("ask", copy=copy)
    ran: list[None] = []

    def ask():
        ran.append(None)
        number = len(ran)
        while number == 1 and next(iter(tools._calls._flights._flights.values())).waiters < 2:
            threading.Event().wait(0.001)  # nothing announces a follower
        return Uncached(number, alone=True)

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(tools.call, "ask", {}, ask) for _ in range(2)]
        assert sorted(one.result(20) for one in asked) == [1, 2]
    assert (tools.stats()["entries"], tools.stats()["joined"], tools.stats()["misses"]["uncacheable"]) == (0, 0, 2)


# ttl


@pytest.mark.parametrize("ttl", [-1, float("nan"), float("inf"), True, "600"])
def test_a_time_to_live_that_makes_no_sense_is_refused(tools, ttl):
    with pytest.raises(ValueError, match="ttl: expected seconds"):
        tools.register("x", ttl=ttl)


def test_a_time_to_live_of_zero_stores_nothing_and_none_never_expires():
    from shared_core.testing import FakeClock

    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("now", ttl=0)
    tools.register("always", ttl=None)
    now, always = Counted(1), Counted(2)
    for _ in range(2):
        tools.call("now", {}, now)
        tools.call("always", {}, always)
        clock.advance(10 * 365 * 86_400)
    assert (now.calls, always.calls) == (2, 1)


# what the numbers say


def test_stats_tell_causes_seconds_and_repeats():
    from shared_core.testing import FakeClock

    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("slow", ttl=100, reads="item")

    def slow(item):
        clock.advance(3)
        return item

    tools.call("slow", {"item": "a"}, slow)  # cold
    tools.call("slow", {"item": "a"}, slow)  # hit
    clock.advance(101)
    tools.call("slow", {"item": "a"}, slow)  # expired
    tools.invalidate_resource("a")
    tools.call("slow", {"item": "a"}, slow)  # invalidated
    stats = tools.stats()
    assert stats["misses"] == {"cold": 1, "expired": 1, "invalidated": 1, "uncacheable": 0, "evicted": 0}
    assert (stats["hits"], stats["seconds_saved"]) == (1, 3.0)
    assert stats["repeats"] == [{"tool": "slow", "arguments": '{"item":"a"}', "scope": "ada", "count": 4}]
    assert copy.deepcopy(stats) == stats


def test_an_agent_that_repeats_an_unregistered_call_shows_in_the_repeats(tools):
    for _ in range(5):
        tools.call("ls", {"path": "."}, lambda path: path)
    assert tools.stats()["repeats"][0]["count"] == 5


def test_a_clock_set_back_expires_what_would_otherwise_never_expire():
    from shared_core.testing import FakeClock

    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("x")
    tool = Counted(1)
    tools.call("x", {}, tool)
    clock.advance(-3600)
    tools.call("x", {}, tool)
    assert tool.calls == 2


def test_results_in_different_forms_stand_beside_each_other_and_go_together(clock):
    """Two frameworks dress the same tool's result up differently: neither may be handed the other's."""
    cache = tool_cache(clock)
    cache.register("read")
    assert cache.call("read", {"id": 1}, lambda id: {"content": id}, form="one") == {"content": 1}
    assert cache.call("read", {"id": 1}, lambda id: {"blocks": [id]}, form="other") == {"blocks": [1]}
    assert cache.call("read", {"id": 1}, lambda id: "executed again", form="one") == {"content": 1}
    cache.invalidate("read", {"id": 1})
    assert cache.call("read", {"id": 1}, lambda id: "executed again", form="one") == "executed again"
    assert cache.call("read", {"id": 1}, lambda id: "executed again", form="other") == "executed again"


class Detached:
    """A value whose own code raises when it is looked at."""

    @property
    def status(self):
        raise RuntimeError("the session is closed")


@pytest.mark.parametrize("make", [lambda: {"status": np.arange(3)}, Detached, lambda: {"status": {"error"}}])
def test_a_result_that_cannot_be_asked_whether_it_failed_reaches_the_caller_all_the_same(tools, make):
    value = make()
    assert tools.call("search", {"q": 1}, lambda q: value) is value


def test_a_tool_that_calls_itself_through_a_thread_pool_runs_twice_rather_than_waiting_for_itself():
    """The pool carries no context: the inner call takes the outer one for a stranger's, and waits its time."""
    tools = tool_cache(wait_seconds=0.01)

    def nested(depth):
        if seen:
            return "inner"
        seen.append(depth)
        with ThreadPoolExecutor(1) as pool:
            return f"outer {pool.submit(cached, depth).result(20)}"

    seen: list[int] = []
    cached = tools.wrap(nested)
    assert cached(1) == "outer inner"
    assert (cached(1), tools.stats()["given_up"]) == ("outer inner", 1)
