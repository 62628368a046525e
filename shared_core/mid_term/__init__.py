"""Mid term: what happened inside a session and can be reused.

Reading order: ``keys.py`` (when two calls are the same), ``tool_cache.py`` (results), ``invalidation.py``
(when a result is stale), ``single_flight.py`` (one execution for many callers), ``response_cache.py``
(model answers), ``context.py`` (the conversation), ``window.py`` (the part of it that is shown), ``sizing.py``
(what a message takes).
"""
