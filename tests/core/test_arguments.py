"""Arguments: each check returns a clean copy, or an error that says what was expected and what came."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_core import Hit, InvalidInput, Memory, arguments

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_name_is_kept_code_point_by_code_point(value):
    assert arguments.name("x", value) == value
    assert arguments.optional_name("x", value) == value


@pytest.mark.parametrize("value", ["", None, 1, b"x", ["x"], "a\ud800"])
def test_what_is_no_name_is_refused(value):
    with pytest.raises(InvalidInput, match="scope: expected"):
        arguments.name("scope", value)


def test_none_is_no_name_but_may_stand_for_none():
    assert arguments.optional_name("x", None) is None


def test_names_keep_order_without_repeats_and_a_string_is_no_list():
    assert arguments.names("tags", iter(["b", "a", "b"])) == ("b", "a")
    assert arguments.names("tags", []) == ()
    with pytest.raises(InvalidInput, match=r"tags: expected a list of strings, got 'ab'; write \['ab'\] for one"):
        arguments.names("tags", "ab")
    for wrong in (None, 3, [1], ["a", ""]):
        with pytest.raises(InvalidInput, match="tags"):
            arguments.names("tags", wrong)


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (5, 5), (np.int32(7), 7), (np.uint8(0), 0)])
def test_a_count_is_a_whole_number_from_zero_up(value, expected):
    found = arguments.count("k", value)
    assert (found, type(found)) == (expected, int)


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", None, math.nan, np.float64(1), np.bool_(True)])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(InvalidInput, match="k: expected"):
        arguments.count("k", value)


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), Fraction(1, 2)])
def test_a_share_is_a_number_from_0_to_1(value):
    assert arguments.unit("x", value) == float(value)


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf, True, "0.5", None, Decimal("0.5"), 10**400])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(InvalidInput, match="importance: expected a number from 0 to 1"):
        arguments.unit("importance", value)


@given(
    st.datetimes(
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=11))])
    )
)
def test_an_aware_datetime_is_its_epoch_seconds(value):
    assert arguments.instant("at", value) == pytest.approx((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "2024", None, 10**400])
def test_what_is_no_instant_is_refused(value):
    with pytest.raises(InvalidInput, match="at: expected epoch seconds or an aware datetime"):
        arguments.instant("at", value)


def test_a_naive_datetime_is_refused_with_what_to_type():
    with pytest.raises(InvalidInput, match=r"the naive .*; write value\.replace\(tzinfo=timezone\.utc\)"):
        arguments.instant("at", datetime(2024, 1, 1))  # noqa: DTZ001 - the fault under test


@pytest.mark.parametrize(("value", "expected"), [(None, None), (0, 0.0), (600, 600.0), (np.float32(1.5), 1.5)])
def test_a_ttl_is_seconds_or_none(value, expected):
    assert arguments.ttl("ttl", value) == expected


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "600", 10**400])
def test_what_is_no_ttl_is_refused(value):
    with pytest.raises(InvalidInput, match=r"ttl: expected seconds, 0 .do not store. or None .no expiry."):
        arguments.ttl("ttl", value)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_a_plain_dict_comes_back_equal_and_is_a_copy(value):
    found = arguments.plain("metadata", value)
    assert found == value
    assert found is not value


@pytest.mark.parametrize("value", [{1: 2}, [], "x", {"x": {1, 2}}, {"x": b""}, {"x": math.inf}, {"x": math.nan}])
def test_what_json_cannot_carry_is_refused(value):
    with pytest.raises(InvalidInput, match="metadata: expected"):
        arguments.plain("metadata", value)


def test_no_metadata_is_an_empty_dict():
    assert arguments.plain("metadata", None) == {}


def test_a_text_is_measured_in_utf8_bytes():
    assert arguments.text("text", "é" * 5, max_bytes=10) == "ééééé"
    with pytest.raises(InvalidInput, match="at most 10 bytes, got 11"):
        arguments.text("text", "é" * 5 + "a", max_bytes=10)


@pytest.mark.parametrize("at", [1_700_000_000_000, 253_402_300_800, -62_135_596_801, np.int64(1_700_000_000_000)])
def test_a_time_no_calendar_can_show_is_asked_whether_it_is_milliseconds(at):
    with pytest.raises(
        InvalidInput, match=r"years 1 to 9999, got .*; seconds, not milliseconds\? write at=value / 1000"
    ):
        arguments.instant("at", at)


@pytest.mark.parametrize("at", [253_402_300_799, -62_135_596_800, 0])
def test_the_first_and_the_last_second_of_the_calendar_are_times(at):
    assert arguments.instant("at", at) == at


@pytest.mark.parametrize(
    ("check", "value", "hint"),
    [
        (arguments.instant, "2024-05-01", "write datetime.fromisoformat(value), with its zone"),
        (
            arguments.instant,
            date(2024, 5, 1),
            "write datetime(value.year, value.month, value.day, tzinfo=timezone.utc)",
        ),
        (arguments.ttl, timedelta(minutes=5), "write value.total_seconds()"),
        (arguments.count, 8.0, "write int(x)"),
        (arguments.count, "8", "write int(x)"),
        (arguments.ids, Memory(id="a", text="b", scope="c"), "write .id"),
        (arguments.ids, [Memory(id="a", text="b", scope="c")], "write .id"),
        (arguments.ids, Hit(Memory(id="a", text="b", scope="c"), 1.0, {}), "write .memory.id"),
        (arguments.ids, [Hit(Memory(id="a", text="b", scope="c"), 1.0, {})], "write .memory.id"),
        (arguments.flag, 1, "write bool(…) around it"),
        (arguments.flag, "no", "write bool(…) around it"),
        (arguments.role, "human", "write 'user'"),
        (arguments.role, "ai", "write 'assistant'"),
        (arguments.scope, 42, "write str(…) around it"),
        (arguments.scope, UUID(int=42), "write str(…) around it"),
        (arguments.name, True, "got bool"),
    ],
)
def test_what_is_refused_comes_with_what_to_type_instead(check, value, hint):
    with pytest.raises(InvalidInput) as raised:
        check("x", value)
    assert str(raised.value).startswith("x: expected")
    assert str(raised.value).endswith(hint)


def test_a_text_in_an_object_is_pointed_at():
    for value, hint in (
        (Memory(id="a", text="b", scope="c"), ".text"),
        (Hit(Memory(id="a", text="b", scope="c"), 1, {}), ".memory.text"),
    ):
        with pytest.raises(InvalidInput, match=f"text: expected a string, got .*; write {hint}$"):
            arguments.text("text", value, max_bytes=10)


def test_one_id_or_several():
    assert arguments.ids("ids", "a") == ["a"]
    assert arguments.ids("ids", iter(["b", "a", "b"])) == ["b", "a", "b"]
