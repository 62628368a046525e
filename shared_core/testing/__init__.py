"""What tests need and users may use too: a clock to move by hand, scripted fakes, conformance suites."""

from shared_core.testing.blobs import InMemoryBlobs
from shared_core.testing.clock import FakeClock
from shared_core.testing.embedders import HashEmbedder

__all__ = ["FakeClock", "HashEmbedder", "InMemoryBlobs"]
