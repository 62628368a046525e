"""What the tests of the tool cache start from."""

from shared_core.errors import ScopeRequired
from shared_core.mid_term.tool_cache import ToolCache
from shared_core.settings import Settings
from shared_core.testing import FakeClock


def scope_of(scope):
    return "ada" if scope is None else scope


def no_default(scope):
    if scope is None:
        raise ScopeRequired("expected a scope, got none; write scope=…")
    return scope


def tool_cache(clock=None, blobs=None, scope_of=scope_of, policy="attention_lru", **settings):
    return ToolCache(
        settings=Settings(**settings), clock=clock or FakeClock(), blobs=blobs, scope_of=scope_of, policy=policy
    )


class Counted:
    """A tool that counts its executions and returns what it is told to, or what its arguments make."""

    def __init__(self, result=None, make=None):
        self.calls = 0
        self.result = result
        self.make = make

    def __call__(self, **args):
        self.calls += 1
        return self.make(**args) if self.make else self.result


def shelf():
    """A cache with tools that read files and items, list orders, and write items."""
    cache = tool_cache()
    cache.register("read", reads="path")
    cache.register("get", reads="item")
    cache.register("list", reads=lambda args: ["orders"])
    cache.register("set", writes="item")
    return cache


def get(tools, item="7", scope=None):
    """Whether the call was a hit."""
    tool = Counted(1)
    tools.call("get", {"item": item}, tool, scope=scope)
    return tool.calls == 0
