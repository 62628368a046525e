"""Which entries an event reaches, and what it counts."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shared_core.mid_term.invalidation import Generations, Reach


def reach(tool="read", call="c", space="scope:a", scope="a", resources=()):
    return Reach(tool, call, space, scope, tuple(resources))


def enter(generations, key, reach):
    hold = generations.hold(reach)
    assert generations.release(reach, hold, key)
    return hold


def test_an_event_reaches_what_hangs_on_it_and_says_how_many():
    generations = Generations()
    one = enter(generations, "k1", reach(resources=["r"]))
    two = enter(generations, "k2", reach(call="d", resources=["r", "s"]))
    assert generations.end("resource", "s") == 1
    assert (generations.true(one), generations.true(two)) == (True, False)
    assert generations.end("resource", "s") == 0


def test_a_value_whose_execution_was_overtaken_by_an_event_is_not_entered():
    generations = Generations()
    hold = generations.hold(reach(resources=["r"]))
    assert generations.end("resource", "r") == 0
    assert not generations.release(reach(resources=["r"]), hold, "k")
    again = enter(generations, "k", reach(resources=["r"]))
    assert generations.true(again)


def test_an_event_can_be_kept_to_a_scope_or_to_a_space():
    generations = Generations()
    ada = enter(generations, "k1", reach(resources=["r"]))
    ben = enter(generations, "k2", reach(scope="b", space="scope:b", resources=["r"]))
    team = enter(generations, "k3", reach(scope="b", space="named:team", resources=["r"]))
    assert generations.end("resource", "r", scope="a") == 1
    assert generations.end("resource", "r", space="named:team") == 1
    assert [generations.true(hold) for hold in (ada, ben, team)] == [False, True, False]


def test_the_work_of_an_event_does_not_grow_with_the_entries_it_reaches():
    """Nothing walks the entries: the generation ends as one, and they leave a few at a time."""
    generations = Generations()
    for i in range(10_000):
        enter(generations, f"k{i}", reach(call=f"c{i}"))
    touched = []

    class Watched(set):
        def __iter__(self):
            touched.append("walked")
            return super().__iter__()

    generation = generations._index["tool"]["read"]
    generation.keys = Watched(generation.keys)
    assert generations.end("tool", "read") == 10_000
    assert touched == []
    assert len(list(generations.sweep(at_once=True))) == 64
    assert len(list(generations.sweep())) == 8


def test_an_entry_that_is_still_to_leave_counts_for_no_second_event():
    """Of 100 entries the second event finds those that the first left alone, whatever has been swept meanwhile."""
    generations = Generations()
    for i in range(100):
        enter(generations, f"k{i}", reach(call=f"c{i % 2}", resources=[f"r{i % 10}"]))
    assert generations.end("resource", "r0") == 10  # of call c0 all
    assert generations.end("call", "c0") == 50 - 10
    assert generations.end("resource", "r2") == 0
    assert generations.end("tool", "read") == 100 - 50
    assert generations.end("space", "scope:a") == 0


def test_nothing_is_left_behind_when_all_entries_have_gone():
    generations = Generations()
    held = {f"k{i}": (reach(call=f"c{i}", resources=[f"r{i}"]),) for i in range(50)}
    holds = {key: enter(generations, key, at) for key, (at,) in held.items()}
    for key, (at,) in held.items():
        generations.leave(at, holds[key], key)
    assert not any(generations._index.values())


def test_one_space_and_scope_can_be_named_where_there_is_one_and_where_there_are_two():
    generations = Generations()
    ada = enter(generations, "k1", reach(resources=["r"]))
    assert generations.end("resource", "r", scope="a", space="named:team") == 0
    team = enter(generations, "k2", reach(space="named:team", resources=["r"]))
    assert generations.end("resource", "r", scope="b", space="named:team") == 0
    assert generations.end("resource", "r", scope="a", space="named:team") == 1
    assert [generations.true(hold) for hold in (ada, team)] == [True, False]
    assert generations.end("resource", "r", scope="a", space="scope:a") == 1
    assert not generations._index["resource"]


def test_an_entry_entered_again_under_its_key_counts_once():
    generations = Generations()
    for _ in range(2):
        enter(generations, "k1", reach(resources=["r"]))
    enter(generations, "k2", reach(call="d", resources=["r"]))
    enter(generations, "k2", reach(call="d", resources=["r"]))
    assert generations.end("resource", "r") == 2
    assert set(generations.sweep(at_once=True)) == {"k1", "k2"}


class Model(RuleBasedStateMachine):
    """Against a plain list of entries: an event's count and reach, with a sweep sooner or later."""

    def __init__(self):
        super().__init__()
        self.generations = Generations()
        self.entries = {}
        self.leaving = {}
        self.next = 0

    @rule(tool=st.sampled_from("xy"), scope=st.sampled_from("ab"), resources=st.sets(st.sampled_from("rst")))
    def put(self, tool, scope, resources):
        at = reach(tool=tool, call=str(self.next), scope=scope, space=f"scope:{scope}", resources=sorted(resources))
        key = f"k{self.next}"
        self.next += 1
        self.entries[key] = (at, enter(self.generations, key, at))

    @rule(
        label=st.sampled_from(
            [("tool", "x"), ("tool", "y"), ("resource", "r"), ("resource", "s"), ("space", "scope:a")]
        ),
        scope=st.sampled_from([None, "a", "b"]),
    )
    def end(self, label, scope):
        reached = {k for k, (at, _) in self.entries.items() if label in set(at.labels()) and scope in (None, at.scope)}
        assert self.generations.end(*label, scope=scope) == len(reached)
        for key in reached:
            self.leaving[key] = self.entries.pop(key)
            assert not self.generations.true(self.leaving[key][1])

    @rule()
    def sweep(self):
        due, swept = min(8, len(self.leaving)), 0
        for key in self.generations.sweep():  # an entry leaves before the next is named
            self.generations.leave(*self.leaving.pop(key), key)
            swept += 1
        assert swept == due

    @invariant()
    def the_rest_is_true(self):
        assert all(self.generations.true(hold) for _, hold in self.entries.values())


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=20)
