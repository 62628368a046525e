"""What makes one plain value of the one before, so that the chunks of a stream cost what they add. Pure functions.

``grown(before, step(before, after)) == after``, of the same types, for whatever JSON can carry.
"""

from __future__ import annotations

from typing import Any

from shared_core import InvalidInput


def step(before: Any, after: Any) -> list[Any]:
    """What makes the one plain value of the other: a text that went on costs only its end, what stayed nothing."""
    if type(before) is not type(after):
        return ["=", after]
    if isinstance(after, str) and after.startswith(before):
        return ["+", after[len(before) :]] if after != before else []
    if isinstance(after, dict):
        steps = {key: step(before[key], item) for key, item in after.items() if key in before}
        changed = {key: made for key, made in steps.items() if made}
        new = {key: item for key, item in after.items() if key not in before}
        gone = [key for key in before if key not in after]
        return ["{", changed, new, gone] if changed or new or gone else []
    if isinstance(after, list):
        both = min(len(before), len(after))
        listed = [step(before[i], after[i]) for i in range(both)]
        return ["[", listed, after[both:]] if any(listed) or len(before) != len(after) else []
    return ["=", after] if before != after else []


def grown(before: Any, made: list[Any]) -> Any:
    """The value after the step; ``before`` stays as it is."""
    match made:
        case []:
            return before
        case ["+", end]:
            return before + end
        case ["{", changed, new, gone]:
            kept = {key: item for key, item in before.items() if key not in gone}
            return {**kept, **{key: grown(before[key], own) for key, own in changed.items()}, **new}
        case ["[", listed, rest]:
            return [grown(item, own) for item, own in zip(before, listed, strict=False)] + rest
        case ["=", value]:
            return value
    raise InvalidInput(f"answer: expected a step, got {made!r:.80}")
