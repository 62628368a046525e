"""Long term: memories across sessions, recalled by score and kept by the rule.

Reading order: ``tier.py`` (the public face), ``store.py`` (writing, and what is known of reads),
``index.py`` (a scope's memories as arrays), ``view.py`` (which of them a recall may see),
``recall.py`` (the score), ``lifecycle.py`` (the sweep).
"""

from shared_core.long_term.tier import LongTerm

__all__ = ["LongTerm"]
