"""Where rows live. ``base.py`` is the contract; each other file is one backend, named only in ``memory.py``."""
