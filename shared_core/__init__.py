"""The core of tiered-memory."""
