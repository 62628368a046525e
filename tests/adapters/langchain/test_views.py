"""A user's own chat model, however it keeps its state and whatever its class does, behind the response cache."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ConfigDict, model_validator

from langchain_tiered_memory import TieredResponseCacheMiddleware, views
from tests.adapters.langchain.fakes import user


class Counting(BaseChatModel):
    """Answers with how often it was asked."""

    count: int = 0

    @property
    def _llm_type(self) -> str:
        return "counting"

    def step(self) -> int:
        self.count += 1
        return self.count

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f"answer {self.step()}"))])


class Validating(Counting):
    model_config = ConfigDict(validate_assignment=True)

    @model_validator(mode="after")
    def checked(self) -> "Validating":
        return self


class Slotted(Counting):
    __slots__ = ("__steps",)

    def step(self) -> int:
        object.__setattr__(self, "_Slotted__steps", getattr(self, "_Slotted__steps", 0) + 1)
        return self.__steps


REGISTERED: dict[str, type] = {}


class Registering(Counting):
    def __init_subclass__(cls, *, kind: str, **given: Any) -> None:
        super().__init_subclass__(**given)
        REGISTERED[kind] = cls


class Registered(Registering, kind="mine"):
    pass


def answers(memory, model, *questions):
    """Each asked of an agent that keeps its answers."""
    agent = create_agent(model, [], middleware=[TieredResponseCacheMiddleware(memory)])
    return [agent.invoke(user(question))["messages"][-1].content for question in questions]


@pytest.mark.parametrize("kind", [Counting, Validating, Slotted, Registered])
def test_what_a_call_changes_in_a_model_is_changed_in_the_model_that_was_given(memory, kind):
    model = kind()
    assert answers(memory, model, "one", "two", "two", "three") == ["answer 1", "answer 2", "answer 2", "answer 3"]
    assert model.step() == 4


def test_the_class_of_a_model_is_told_of_no_subclass(memory):
    answers(memory, Registered(), "one")
    assert {"mine": Registered} == REGISTERED


class Final(type(BaseChatModel)):
    """A metaclass whose classes cannot be derived from."""

    def __new__(mcs, name: str, bases: Any, members: Any, **given: Any) -> Any:
        if any(isinstance(base, Final) for base in bases):
            raise TypeError("final")
        return super().__new__(mcs, name, bases, members, **given)


class Sealed(Counting, metaclass=Final):
    pass


def test_a_model_that_cannot_be_seen_through_a_subclass_answers_itself_and_is_counted(memory, caplog):
    middleware = TieredResponseCacheMiddleware(memory)
    agent = create_agent(Sealed(), [], middleware=[middleware])
    assert [agent.invoke(user("hi"))["messages"][-1].content for _ in range(2)] == ["answer 1", "answer 2"]
    assert middleware.counts == {"lookup_failures": 2}
    assert "final" in caplog.text


def test_a_copy_of_a_view_has_a_state_of_its_own_and_the_views_value():
    model = Slotted()
    seen = views.view(model, views.kind_of(Slotted, "_place", {}), "_place", "value")
    again = views.view(seen, views.kind_of(type(seen), "_other", {}), "_other", "more")
    for copied in (again.model_copy(), again.model_copy(deep=True)):
        copied.count = 7
        assert (copied._place, copied._other, copied.step()) == ("value", "more", 1)
    assert (again.step(), model.count) == (1, 0)
    assert model.step() == 2


class Telling(Counting):
    """Says which model it is; to LangChain's key it tells nothing of it."""

    model: str = "one"
    temperature: float = 0.0

    def step(self) -> str:
        return f"of {type(self).__name__} {self.model} at {self.temperature}"


class AlsoTelling(Telling):
    pass


def test_models_that_tell_langchain_nothing_of_their_settings_do_not_answer_for_each_other(memory):
    models = [Telling(), Telling(model="two"), Telling(temperature=1.0), AlsoTelling()]
    given = [answers(memory, model, "hi")[0] for model in models]
    assert given == [
        "answer of Telling one at 0.0",
        "answer of Telling two at 0.0",
        "answer of Telling one at 1.0",
        "answer of AlsoTelling one at 0.0",
    ]
