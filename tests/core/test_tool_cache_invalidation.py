"""Events end what hangs on them: by call, by the start of a name, by resource, by scope, by a rewind."""

import pytest

from shared_core.testing import FakeClock
from tests.core.tool_cache_kit import Counted, get, shelf, tool_cache


@pytest.fixture
def tools():
    return shelf()


def test_an_event_for_one_call_reaches_it_in_every_scope_or_in_one(tools):
    for scope in ("ada", "ben"):
        get(tools, scope=scope)
        get(tools, "8", scope=scope)
    assert tools.invalidate("get", {"item": "7"}, scope="ada") == 1
    assert tools.invalidate("get", {"item": "7"}) == 1
    assert tools.invalidate("get", {"item": "7"}) == 0
    assert tools.invalidate("get", {"item": float("nan")}) == 0
    assert get(tools, "8")


def test_an_event_by_prefix_reaches_every_tool_whose_name_starts_so_in_every_scope():
    tools = tool_cache()
    for name in ("db_read", "db_list", "web", "db%"):
        tools.register(name)
        for scope in ("ada", "ben"):
            tools.call(name, {}, lambda: 1, scope=scope)
    assert tools.invalidate_prefix("db_", scope="ada") == 2
    assert tools.invalidate_prefix("db_") == 2
    assert tools.invalidate_prefix("db_") == 0
    assert tools.invalidate_prefix("") == 4


def test_an_event_for_a_resource_counts_expired_entries_too():
    clock = FakeClock()
    tools = tool_cache(clock)
    tools.register("get", reads="item", ttl=1)
    get(tools)
    clock.advance(5)
    assert tools.invalidate_resource("7") == 1
    assert tools.stats()["entries"] == 0


def test_an_entry_counts_for_one_event_only(tools):
    get(tools)
    assert tools.invalidate_resource("7") == 1
    assert tools.invalidate_prefix("get") == 0


def test_invalidated_entries_leave_a_few_at_a_time_and_are_never_served():
    tools = tool_cache()
    tools.register("get", reads=lambda args: ["all"])
    for i in range(200):
        get(tools, str(i))
    assert tools.invalidate_resource("all") == 200
    assert tools.stats()["entries"] == 200 - 64
    assert not any(get(tools, str(i)) for i in range(200))
    assert tools.stats()["entries"] == 200


def test_registering_a_tool_anew_with_other_resources_does_not_serve_what_hung_on_less(tools):
    get(tools)
    tools.register("get", reads=lambda args: [args["item"], "all"])
    assert not get(tools)


def test_a_rewind_drops_what_was_registered_to_go_with_it(tools):
    tools.register("sandbox", rewinds=True)
    for scope in ("ada", "ben"):
        tools.call("sandbox", {}, lambda: 1, scope=scope)
        get(tools, scope=scope)
    assert tools.rewound("ada") == 1
    tool = Counted(2)
    assert tools.call("sandbox", {}, tool, scope="ada") == 2
    assert tools.call("sandbox", {}, tool, scope="ben") == 1
    assert get(tools, scope="ada")


def test_a_scope_can_be_cleared(tools):
    get(tools, scope="ada")
    get(tools, scope="ben")
    assert tools.clear_scope("ada") == 1
    assert (get(tools, scope="ada"), get(tools, scope="ben")) == (False, True)


def test_a_rewind_reaches_every_function_of_a_name_that_was_to_go_with_it(tools):
    def reader(value, **how):
        def read(x):
            return value

        return tools.wrap(read, **how)

    goes, stays = reader("goes", rewinds=True), reader("stays")  # wrapped later under the same name
    goes(1), stays(1)
    assert tools.rewound() >= 1
    assert tools.stats()["misses"]["cold"] == 2
    assert goes(1) == "goes"
    assert tools.stats()["misses"]["invalidated"] == 1


def test_a_call_named_without_defaults_reaches_that_of_every_function_of_the_name(tools):
    def of(unit):
        def weather(city, unit=unit):
            return f"{city} {unit}"

        return tools.wrap(weather)

    celsius, fahrenheit = of("C"), of("F")
    assert (celsius("Rome"), fahrenheit("Rome"), celsius("Oslo")) == ("Rome C", "Rome F", "Oslo C")
    assert tools.invalidate("weather", {"city": "Rome"}) == 2
    assert tools.invalidate("weather", {"city": "Oslo", "unit": "C"}) == 1
