"""The main job in one minute: ``make demo``."""
