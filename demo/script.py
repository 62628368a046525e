"""What the scripted model says: a rule that reads the prompt and nothing else. No framework here.

It knows nothing by itself: without the recalled block in its prompt it cannot answer a question
about the user, so that what you see is what the memory did. With ANTHROPIC_API_KEY set a real model
takes its place.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass

SCOPE = "ada"
REAL = bool(os.environ.get("ANTHROPIC_API_KEY"))
MODEL = os.environ.get("DEMO_MODEL", "claude-haiku-4-5")
SYSTEM = "You are a helpful assistant. Use what you are told about the user. Answer in one sentence."

SESSION_ONE = (
    "Hi, I'm Ada. I take my coffee black, no sugar.",
    "I'm flying to Lisbon on Friday. What is the weather there?",
    "What was the weather in Lisbon again?",
    "Please remember that I am allergic to peanuts.",
)
SESSION_TWO = (
    "How do I take my coffee?",
    "Which snack should I avoid on the plane?",
    "What is the weather where I am flying to?",
    "And the weather there once more?",
)

executions = 0


def get_weather(city: str) -> str:
    """The weather in a city today."""
    global executions  # noqa: PLW0603 - the demo shows how often the tool really ran
    executions += 1
    time.sleep(0.3)  # a slow service, so that a call saved is time saved
    return f"21 degrees and sunny in {city}"


@dataclass(frozen=True)
class Call:
    """The model asks for a tool."""

    name: str
    args: dict[str, str]


def reply(question: str, prompt: str, tool_result: str | None) -> str | Call:
    """The next message of the scripted model, from the question, all it can see, and a tool's result if there is one."""
    if "weather" in question.lower():
        if tool_result is not None:
            return f"It is {tool_result}."
        city = re.search(r"flying to (\w+)|in (Lisbon)", prompt)
        return Call("get_weather", {"city": city[1] or city[2]}) if city else "Where are you flying to?"
    if "coffee" in question.lower() and "?" in question:
        return "Black, no sugar." if "coffee black" in prompt else "You have not told me."
    if "snack" in question.lower():
        return "Peanuts: you are allergic to them." if "allergic to peanuts" in prompt else "I know of none."
    return "Nice to meet you, Ada." if "I'm Ada" in question else "I will keep that in mind."
