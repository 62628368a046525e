"""What every test may ask for."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from shared_core.testing import FakeClock

# No property is judged by how long an example takes: a busy machine is not a fault.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def clock() -> FakeClock:
    """A clock that moves only when a test moves it."""
    return FakeClock()
