"""What every test may ask for."""

from __future__ import annotations

import pytest

from shared_core.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves only when a test moves it."""
    return FakeClock()
