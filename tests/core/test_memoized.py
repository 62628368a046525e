"""A wrapped or memoized function is called as before, whatever kind of function it is."""

import functools

import pytest

from tests.core.tool_cache_kit import tool_cache


@pytest.fixture
def tools():
    cache = tool_cache()
    cache.register("search")
    return cache


def test_a_wrapped_function_keeps_its_face_and_takes_its_arguments_in_any_form(tools):
    ran = []

    def weather(city, unit="C", *days, **more):
        """The weather."""
        ran.append(city)
        return [city, unit, days, more]

    cached = tools.wrap(weather)
    assert (cached.__name__, cached.__doc__) == ("weather", "The weather.")
    for call in (
        functools.partial(cached, "Rome"), functools.partial(cached, city="Rome"), functools.partial(cached, "Rome", "C"),
        functools.partial(cached, unit="C", city="Rome"),
    ):  # fmt: skip
        assert call() == ["Rome", "C", (), {}]
    assert len(ran) == 1
    assert cached("Rome", "C", 1, x=2) == ["Rome", "C", (1,), {"x": 2}]
    assert len(ran) == 2
    assert tools.invalidate("weather", {"city": "Rome"}) == 1
    with pytest.raises(TypeError):
        cached()


def test_closures_and_callable_objects_that_look_alike_never_share(tools):
    def make(n):
        def answer():
            return n

        return answer

    class Answer:
        def __init__(self, n):
            self.n = n

        def __call__(self):
            return self.n

    assert [tools.wrap(make(n))() for n in (1, 2)] == [1, 2]
    assert [tools.wrap(Answer(n))() for n in (1, 2)] == [1, 2]
    assert [tools.wrap(Answer(n).__call__)() for n in (1, 2)] == [1, 2]
    assert [tools.memoize(functools.partial(max, n))(0) for n in (1, 2)] == [1, 2]
    assert [tools.memoize(lambda n=n: n)() for n in (1, 2)] == [1, 2]


def test_a_method_wrapped_in_its_class_has_no_key_by_its_object_and_is_executed(tools):
    class Client:
        n = 0

        def get(self):
            self.n += 1
            return self.n

    Client.get = tools.wrap(Client.get)
    client = Client()
    assert [client.get(), client.get()] == [1, 2]
    assert tools.stats()["misses"]["uncacheable"] == 2


def test_intermediate_computations_are_memoized_like_tools(tools):
    ran = []

    @tools.memoize
    def embed(texts, model="small"):
        ran.append(texts)
        return [[0.5] * 3 for _ in texts]

    assert embed(["a"]) == embed(["a"], model="small") == [[0.5] * 3]
    assert embed(["b"]) == [[0.5] * 3]
    assert len(ran) == 2


def test_a_decorator_that_fills_in_an_argument_stays_callable_and_its_calls_are_kept(tools):
    """It shows the signature of the function inside, which its callers need not meet."""
    executed = []

    def connected(fn):
        @functools.wraps(fn)
        def outer(*args, **kwargs):
            return fn("connection", *args, **kwargs)

        return outer

    @tools.memoize
    @connected
    def query(db, text, limit=3):
        executed.append(text)
        return [db, text, limit]

    assert [query("a"), query("a"), query("b")] == [["connection", x, 3] for x in ("a", "a", "b")]
    assert query(text="a", limit=4) == query(limit=4, text="a") == ["connection", "a", 4]
    assert executed == ["a", "b", "a"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'text'"):
        query()
