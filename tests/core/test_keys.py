"""When two calls are the same call."""

import dataclasses
import enum
import math
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared_core.errors import InvalidInput, StorageError
from shared_core.mid_term.keys import arguments_key, canonical, digest
from shared_core.storage import codec


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Point:
    x: float
    y: float


@dataclasses.dataclass
class Vector:
    x: float
    y: float


class Query(pydantic.BaseModel):
    text: str
    limit: int = 5


Pair = namedtuple("Pair", "a b")  # noqa: PYI024

DIFFERENT = [
    1, 1.0, True, "1", b"1", None, 0, 0.0, -0.0, False, "", b"", [], (), {}, set(), frozenset(), [1], (1,), {1}, {"1": 1},
    {1: 1}, [[1], 2], [1, [2]], [1, 2], [2, 1], "None", Decimal(1), Decimal("1.0"), Point(1, 2), Vector(1, 2), Point(1.0, 2),
    Colour.RED, Level.ONE, Query(text="a"), Query(text="b"), Pair(1, 2), (1, 2), UUID(int=1), Path("a"), "a", date(2024, 1, 1),
    datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Paris")),  # noqa: DTZ001
    timedelta(1), bytearray(b"1"), 1 + 0j, np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.int64(1), np.int32(1),
    OrderedDict(a=1), {"a": 1}, {"$tuple": [1]}, {"$dict": []}, float("inf"), "inf",
]  # fmt: skip


def test_values_that_a_tool_could_tell_apart_have_different_keys():
    """1, 1.0, True, "1", b"1" and None are six arguments; so are a list and a tuple, 0.0 and -0.0."""
    texts = [canonical(value) for value in DIFFERENT]
    assert len(set(texts)) == len(DIFFERENT)


@pytest.mark.parametrize("pair", [
    ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
    ({3: "x", "y": 1}, {"y": 1, 3: "x"}),
    ({1, "a", (2, 3)}, {(2, 3), "a", 1}),
    (Point(1, 2), Point(1, 2)),
    (Query(text="a"), Query(limit=5, text="a")),
    (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.copy()),
])  # fmt: skip
def test_equal_values_of_distinct_identity_have_one_key(pair):
    assert canonical(pair[0]) == canonical(pair[1])


def test_what_a_dataclass_holds_beside_its_fields_is_part_of_its_key():
    one, other, like = Point(1, 2), Point(1, 2), Point(1, 2)
    one.tenant, other.tenant, like.tenant = "ada", "ben", "ada"
    assert canonical(one) == canonical(like)
    assert len({canonical(one), canonical(other), canonical(Point(1, 2))}) == 3


def test_repeating_one_object_or_two_equal_ones_makes_no_difference():
    shared, other = [1], [1]
    assert canonical([shared, shared]) == canonical([shared, other])


def test_the_order_of_dict_entries_is_irrelevant_and_that_of_lists_is_not():
    assert arguments_key({"a": 1, "b": 2}) == arguments_key({"b": 2, "a": 1})
    assert arguments_key({"a": [1, 2]}) != arguments_key({"a": [2, 1]})


@dataclasses.dataclass
class Listed(list):
    """A dataclass that holds more than its fields."""

    n: int


@dataclasses.dataclass
class Chosen(set):
    """Another one."""

    name: str


class Client:
    """An object that shows nothing but its address."""


@pytest.mark.parametrize("value", [
    math.nan, [math.nan], {"a": {"b": math.nan}}, np.array([1.0, math.nan]), np.float64("nan"), Point(math.nan, 0),
    Client(), lambda: 1, Client, iter([1]), Point(Client(), 0), [10**5000], np.array([object()]),
    Decimal("nan"), Decimal("snan"), complex(math.nan, 0), complex(0, math.nan), [Decimal("-nan")],
    np.ma.array([1, 2], mask=[0, 1]), defaultdict(list, a=1), Listed(1), Chosen("a"),
])  # fmt: skip
def test_what_cannot_be_compared_by_value_has_no_key(value):
    """NaN is not equal to itself, and an address says nothing about a value: better executed than mistaken."""
    with pytest.raises(InvalidInput):
        canonical(value)


def test_a_cycle_has_no_key():
    loop = []
    loop.append(loop)
    with pytest.raises(InvalidInput):
        canonical(loop)


def test_the_parts_of_a_hash_never_run_together():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab") != digest("a", "b")
    assert len(digest("x")) == 64


def test_lone_surrogates_are_text_like_any_other():
    assert canonical("\ud800") != canonical("\ud801")
    assert digest("\ud800") != digest("\ud801")


def test_keys_are_equal_in_processes_with_different_hash_seeds():
    program = (
        "from shared_core.mid_term.keys import canonical, digest;"
        "print(digest(canonical({'s': {'x', 'y', 'z', 1, 2.5}, 'f': frozenset('abc'), 'd': {'k': b'1', 'j': (1, None)}})))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }  # fmt: skip
    assert len(seen) == 1
    assert len(seen.pop().strip()) == 64


# The codec beneath: what is written comes back equal and of the same type.

atoms = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.dates()
    | st.datetimes() | st.datetimes(timezones=st.timezones()) | st.timedeltas() | st.decimals(allow_nan=False) | st.uuids()
    | st.complex_numbers(allow_nan=False)
)  # fmt: skip
hashable = st.recursive(atoms, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hashable, inner, max_size=3) | st.sets(hashable, max_size=3)
    | st.tuples(inner) | st.dictionaries(st.sampled_from(["$tuple", "$dict", "a"]), inner, max_size=2),
    max_leaves=12,
)  # fmt: skip


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@settings(max_examples=60)
@given(values)
def test_every_plain_value_survives_the_codec_with_its_type(value):
    assert same(codec.decode(codec.encode(value)), value)


@settings(max_examples=60)
@given(values, values)
def test_one_key_means_one_written_form(a, b):
    assert (canonical(a) == canonical(b)) <= (a == b)


def test_times_keep_their_zone_and_their_fold():
    paris = datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris"))
    back = codec.decode(codec.encode(paris))
    assert (back.fold, back.tzinfo, back.utcoffset()) == (1, ZoneInfo("Europe/Paris"), timedelta(hours=1))
    fixed = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert codec.decode(codec.encode(fixed)).utcoffset() == timedelta(hours=5, minutes=30)


@pytest.mark.parametrize("value", [Point(1, 2), OrderedDict(a=1), Level.ONE, object(), Pair(1, 2), lambda: 1])
def test_what_would_come_back_as_something_else_is_refused(value):
    with pytest.raises(InvalidInput):
        codec.encode(value)


@pytest.mark.parametrize("raw", [
    b"", b"{", b"\xff", b'{"$python/object": "os.system"}', b'{"$set": [[1]]}', b'{"$UUID": 5}', b'{"$bytes": "!"}',
    b'{"$datetime": ["x", 0, null]}', b'{"$datetime": ["2024-01-01T00:00:00", 0, "../../etc/passwd"]}', b"[" * 100_000,
])  # fmt: skip
def test_bytes_that_the_codec_did_not_write_are_an_error_and_run_nothing(raw):
    with pytest.raises(StorageError):
        codec.decode(raw)
