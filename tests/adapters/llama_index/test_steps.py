"""The law of the steps in which a stream is kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_index_tiered_memory.steps import grown, step

# The law of the steps

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN, PLAIN)
def test_a_value_and_the_step_from_it_make_the_next_and_leave_it_as_it_is(before, after):
    kept = repr(before)
    found = grown(before, step(before, after))
    assert found == after
    assert type(found) is type(after)
    assert repr(before) == kept
    assert step(after, after) == []
