"""Measured, not claimed: each prints a table beside baselines made in the same run."""
