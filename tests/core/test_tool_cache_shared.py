"""Results kept in rows that processes share: the same answers, and each other's invalidations.

Two caches on one ``InMemoryBlobs`` stand for two processes: they share the rows and nothing else.
"""

import os
import threading
from enum import Enum

import pytest

from shared_core.errors import StorageError
from shared_core.mid_term.rows import Row, Rows
from shared_core.settings import Settings
from shared_core.storage.base import Blob
from shared_core.testing import FakeClock, InMemoryBlobs
from tests.core.tool_cache_kit import Counted, tool_cache


class Kind(Enum):
    QUICK = 1


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def blobs():
    return InMemoryBlobs()


@pytest.fixture
def process(clock, blobs):
    def start(**options):
        tools = tool_cache(clock, blobs=blobs, **options)
        tools.register("get", reads="item")
        tools.register("set", writes="item")
        return tools

    start.clock, start.blobs = clock, blobs
    return start


def hit(tools, item="7", scope=None):
    tool = Counted([item])
    assert tools.call("get", {"item": item}, tool, scope=scope) == [item]
    return tool.calls == 0


@pytest.mark.parametrize("value", [None, "text", b"\x00\xff", [1, (2, {3: {"a"}})], {"$tuple": 1}, 1.5])
def test_another_process_finds_the_result_equal_and_of_the_same_type(process, value):
    process().call("get", {"item": "7"}, lambda item: value)
    found = process().call("get", {"item": "7"}, lambda item: pytest.fail("executed"))
    assert found == value
    assert type(found) is type(value)


def test_scopes_do_not_see_each_others_rows(process):
    assert not hit(process(), scope="ada")
    assert not hit(process(), scope="ben")


EVENTS = {
    "write": lambda tools: tools.call("set", {"item": "7"}, lambda item: None),
    "unknown tool": lambda tools: tools.call("book", {}, lambda: None),
    "call": lambda tools: tools.invalidate("get", {"item": "7"}),
    "call in scope": lambda tools: tools.invalidate("get", {"item": "7"}, scope="ada"),
    "prefix": lambda tools: tools.invalidate_prefix("ge"),
    "prefix in scope": lambda tools: tools.invalidate_prefix("", scope="ada"),
    "resource": lambda tools: tools.invalidate_resource("7"),
    "resource in scope": lambda tools: tools.invalidate_resource("7", scope="ada"),
    "clear": lambda tools: tools.clear_scope("ada"),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("known", [True, False])
def test_an_event_in_one_process_makes_the_other_fresh(process, event, known):
    """Whether or not the process that causes it has ever seen the entry."""
    one, two = process(), process()
    assert not hit(one)
    assert hit(two) if known else True
    count = EVENTS[event](two)
    assert count in (None, 1)
    assert not hit(one)
    assert hit(two)


@pytest.mark.parametrize(
    "event", ["resource in scope", "prefix in scope", "call in scope", "write", "unknown tool", "clear"]
)
def test_an_event_of_one_scope_leaves_the_others_in_every_process(process, event):
    one, two = process(), process()
    hit(one, scope="ben")
    EVENTS[event](two)
    assert hit(one, scope="ben")
    assert hit(two, scope="ben")


def test_a_tool_whose_name_another_process_never_heard_is_reached_by_its_prefix(clock, blobs):
    one, two = tool_cache(clock, blobs=blobs), tool_cache(clock, blobs=blobs)
    one.register("db_read")
    one.call("db_read", {}, lambda: 1)
    assert two.invalidate_prefix("db_") == 1
    assert one.call("db_read", {}, lambda: 2) == 2


def test_a_read_overtaken_by_another_process_is_not_kept(process):
    one, two = process(), process()

    def slow(item):
        two.invalidate_resource("7")
        return ["old"]

    assert one.call("get", {"item": "7"}, slow) == ["old"]
    assert not hit(one)


def test_where_nothing_was_ever_kept_an_unknown_tool_costs_no_write(clock):
    class Writes(InMemoryBlobs):
        moved = 0

        def advance(self, *args, **more):
            self.moved += 1
            return super().advance(*args, **more)

    blobs = Writes()
    one, two = tool_cache(clock, blobs=blobs), tool_cache(clock, blobs=blobs)
    one.call("book", {}, lambda: 1)
    assert blobs.moved == 0
    two.register("get", reads="item")
    hit(two)
    one.call("book", {}, lambda: 1)
    assert blobs.moved == 2  # before and after
    assert not hit(two)


class Meanwhile(InMemoryBlobs):
    """Lets something happen after a row was looked for and before the caller hears that there is none."""

    then = None

    def get(self, *place, now):
        found = super().get(*place, now=now)
        happening, self.then = self.then, None
        if happening:
            happening()
        return found


def test_a_call_that_looked_just_before_another_one_ended_does_not_execute_again(clock):
    blobs = Meanwhile()
    tools = tool_cache(clock, blobs=blobs)
    tools.register("get")
    tool = Counted("x")
    blobs.then = lambda: tools.call("get", {}, tool)
    assert tools.call("get", {}, tool) == "x"
    assert tool.calls == 1


def test_a_process_that_dies_inside_a_write_has_invalidated_before_it(process):
    one, two = process(), process()
    hit(two)

    def dies(item):
        assert not hit(two)  # seen from outside while the write is under way
        raise SystemExit

    with pytest.raises(SystemExit):
        one.call("set", {"item": "7"}, dies)


def test_a_row_about_a_file_that_changed_is_not_used(process, tmp_path):
    file = tmp_path / "f"
    file.write_text("one")
    os.utime(file, (1_600_000_000, 1_600_000_000))
    hit(process(), str(file))
    assert hit(process(), str(file))
    file.write_text("two")
    assert not hit(process(), str(file))


def test_a_row_expires_for_every_process(process, clock):
    hit(process())
    clock.advance(599)
    assert hit(process())
    clock.advance(1)
    assert not hit(process())


def test_a_shorter_time_to_live_holds_for_rows_written_under_a_longer_one(process, clock):
    hit(process())
    two = process()
    two.register("get", reads="item", ttl=10)
    clock.advance(10)
    assert not hit(two)


def test_a_tool_registered_with_other_resources_does_not_use_rows_that_hung_on_less(process):
    hit(process())
    two = process()
    two.register("get", reads=lambda args: [args["item"], "all"])
    assert not hit(two)


def test_what_typed_json_cannot_carry_stays_in_memory(process, blobs):
    class Page:
        text = "x"

    one = process()
    tool = Counted(make=lambda item: Page())
    one.call("get", {"item": "7"}, tool)
    one.call("get", {"item": "7"}, tool)
    assert tool.calls == 1
    assert not hit(process())


def test_a_function_no_other_process_could_recognise_stays_in_memory(clock, blobs):
    def make(n):
        return lambda: n

    one = tool_cache(clock, blobs=blobs)
    assert one.wrap(make(1))() == 1
    two = tool_cache(clock, blobs=blobs)
    assert two.wrap(make(2))() == 2
    assert blobs.namespaces("ada") == []


def test_an_evicted_entry_takes_its_row_with_it(process, blobs, clock):
    tools = process(cache_items=2)
    for key in "abcd":
        hit(tools, key)
    assert len(blobs.keys("ada", "tools", now=clock())) == 2


def test_rows_of_processes_that_are_gone_stay_within_the_bounds(clock, blobs):
    for n in range(4):
        tools = tool_cache(clock, blobs=blobs, cache_items=10)
        tools.register("get", reads="item")
        for i in range(10):
            tools.call("get", {"item": f"{n}-{i}"}, lambda item: item, scope=f"tenant {n}")
            clock.advance(1)
    rows = sum(len(blobs.keys(f"tenant {n}", "tools", now=clock())) for n in range(4))
    assert rows <= 10 + 9  # trimmed at a process's first row, then nine more


# A storage that fails


class Failing(InMemoryBlobs):
    """Raises on the named calls."""

    def __init__(self):
        super().__init__()
        self.broken = set()

    def __getattribute__(self, name):
        if not name.startswith("_") and name != "broken" and name in self.broken:
            raise StorageError("disk full")
        return super().__getattribute__(name)


ALL = {"get", "put", "delete", "clear", "counters", "advance", "trim", "keys", "generation"}


def test_a_storage_that_fails_never_fails_a_call(clock):
    blobs = Failing()
    tools = tool_cache(clock, blobs=blobs)
    tools.register("get", reads="item")
    blobs.broken = ALL
    assert [hit(tools), hit(tools)] == [False, False]
    assert tools.call("book", {}, lambda: "booked") == "booked"
    assert tools.stats()["storage_errors"] > 0


def test_an_event_that_could_not_be_written_is_not_lost(clock):
    """Until it is written, this process uses no row; then it is written first."""
    blobs = Failing()
    one, two = tool_cache(clock, blobs=blobs), tool_cache(clock, blobs=blobs)
    for tools in (one, two):
        tools.register("get", reads="item")
    hit(one)
    hit(two, "other")
    blobs.broken = {"advance"}
    one.invalidate_resource("7")
    assert not hit(one)
    assert one.stats()["entries"] == 0
    assert hit(two)  # nobody could tell it yet
    blobs.broken = set()
    hit(one, "other")  # anything that touches the storage brings the event along
    assert not hit(two)


def test_events_without_end_that_cannot_be_written_do_not_pile_up(clock):
    blobs = Failing()
    blobs.broken = {"advance"}
    rows = Rows(blobs, "tools", Settings())
    for _ in range(5000):
        rows.advance(["same"], ["same"], None)
    assert len(rows._pending) == 1
    for i in range(1500):
        rows.advance([f"n{i}"], [f"n{i}"], None)
    assert len(rows._pending) <= 1000
    blobs.broken = set()
    assert rows.load("ada", "k", clock()) is None
    assert rows.stamps(["n1"]) is None


@pytest.mark.parametrize("poison", [
    b"", b"\n", b"garbage", b"[]\n1", b"{}\n1", b'{"seconds":1}\n"x"', b'{"stamps":5,"watched":5,"seconds":"x"}\n"x"',
    b'{"stamps":[],"watched":[],"seconds":0}\n{"$python/object/apply":"os.system"}',
    b'{"stamps":[0,0,0,0,0,0,0,0],"watched":[[1,2,3]],"seconds":0}\n"x"',
    b'{"stamps":[0,0,0,0,0,0,0,0],"watched":{"$tuple":[{"$tuple":["7","x",{"$tuple":["file"]}]}]},"seconds":0}\n"x"',
])  # fmt: skip
def test_a_poisoned_row_is_a_miss_and_runs_nothing(process, blobs, clock, poison):
    hit(process())
    (key,) = blobs.keys("ada", "tools", now=clock())
    blobs.put("ada", "tools", [Blob(key, poison, clock())])
    assert not hit(process())


def test_rows_hold_facts_and_values_and_come_back(blobs, clock):
    rows = Rows(blobs, "tools", Settings())
    row = Row({"stamps": [1], "watched": (("r", "/r", ("absent",)),), "seconds": 1.5}, b'"x"', clock())
    assert rows.save("ada", "k", row, expires=None)
    assert rows.load("ada", "k", clock()) == row


async def test_awaited_calls_use_the_rows_too(process):
    async def fetch(item):
        return [item]

    assert await process().acall("get", {"item": "7"}, fetch) == ["7"]
    assert await process().acall("get", {"item": "7"}, lambda item: pytest.fail("executed")) == ["7"]
    one, two = process(), process()
    await two.acall("book", {}, threading.get_ident)
    assert not hit(one)


def test_shared_counters_move_together_and_tagged_blobs_go_with_them(blobs):
    blobs.put("ada", "n", [Blob("k", b"1", 0.0, None, ("t",)), Blob("l", b"22", 1.0, None, ("u",))])
    blobs.put("ben", "n", [Blob("k", b"1", 0.5, None, ("t",))])
    assert blobs.counters(["a", "b"]) == [0, 0]
    assert blobs.advance(["a", "b"], namespace="n", tags=["t"], scope="ada") == 1
    assert blobs.advance(["a"], namespace="n", tags=["t", "u"]) == 2
    assert blobs.counters(["b", "a", "c"]) == [1, 2, 0]


def test_trimming_removes_the_earliest_created_over_all_scopes(blobs):
    blobs.put("ada", "n", [Blob("late", b"x" * 10, 3.0), Blob("early", b"x" * 10, 1.0)])
    blobs.put("ben", "n", [Blob("middle", b"x" * 10, 2.0)])
    blobs.put("ben", "other", [Blob("untouched", b"x" * 100, 0.0)])
    assert blobs.trim("n", max_items=3, max_bytes=30) == 0
    assert blobs.trim("n", max_items=2, max_bytes=30) == 1
    assert blobs.trim("n", max_items=2, max_bytes=19) == 1
    assert blobs.keys("ada", "n", now=9) == ["late"]
    assert blobs.keys("ben", "other", now=9) == ["untouched"]


def test_a_call_is_named_with_or_without_defaults_that_only_another_process_knows(process):
    """The function was called and wrapped over there; here its name is all there is."""

    def search(query, limit=10, since=None, *, exact=False):
        return [query, limit]

    def asked():
        tools = process()
        tools.register("search")
        return tools.call("search", {"query": "x"}, search)

    for named in (
        {"query": "x"},
        {"query": "x", "exact": False},
        {"query": "x", "limit": 10, "since": None, "exact": False},
    ):
        assert asked() == ["x", 10]
        assert tool_cache(process.clock, blobs=process.blobs).invalidate("search", named) == 1
    assert asked() == ["x", 10]
    assert tool_cache(process.clock, blobs=process.blobs).invalidate("search", {"query": "x", "limit": 11}) == 0


def test_defaults_of_any_type_that_can_be_compared_are_known_elsewhere(process):
    assert process().call("get", {}, lambda item="7" * 2_000, how=Kind.QUICK: "long") == "long"
    assert tool_cache(process.clock, blobs=process.blobs).invalidate("get", {}) == 1


def test_a_default_that_cannot_be_compared_hides_no_other(process):
    """A call that leaves it in is never kept; one that names something else is, and is found."""
    assert process().call("get", {"client": 1}, lambda item="7", client=Kind: "seven") == "seven"
    assert tool_cache(process.clock, blobs=process.blobs).invalidate("get", {"client": 1}) == 1


def test_no_default_stands_in_the_rows_as_it_is(process):
    """A function made for one user may hold that user's text in a default, and erasing a scope must find all of it."""
    process().call("get", {"item": "7"}, lambda item, user="ada lovelace": "seven")
    place = '\x1ftools.defaults."get"'
    (noted,) = process.blobs.keys(place, place, now=0.0)
    assert "user" in noted
    assert "ada" not in noted


def test_a_name_that_stands_for_a_new_function_each_time_does_not_fill_the_rows(process):
    tools = process()
    for n in range(50):
        tools.call("get", {"item": "7"}, lambda item, n=n: n)
    noted = process.blobs.keys('\x1ftools.defaults."get"', '\x1ftools.defaults."get"', now=0.0)
    assert len(noted) == 8
