"""The record of one task, its identity, and the classes that a task declares."""

from __future__ import annotations

import asyncio
import copy
import pickle
from typing import Generic, TypeVar

import pytest
from pydantic import ValidationError

import vfnb as vf
from vfnb.errors import ConfigError, TasksetError
from vfnb.tasks import NetworkPolicy, TaskTimeout, run_setup


class Data(vf.TaskData):
    answer: int = 0


class Config(vf.TaskConfig):
    tolerance: float = 0.0


class MyState(vf.State):
    calls: int = 0


class Full(vf.Task[Data, MyState, Config]):
    pass


def test_data_is_frozen() -> None:
    data = Data(prompt="x", answer=1)
    with pytest.raises(ValidationError, match="frozen"):
        data.answer = 2


def test_unknown_field_names_the_nearest() -> None:
    with pytest.raises(TasksetError, match=r"anwser: unknown key of Data; did you mean answer\?"):
        Data(prompt="x", anwser=1)  # type: ignore[call-arg]


def test_prompt_may_be_text_messages_or_nothing() -> None:
    assert vf.TaskData(prompt="hello").prompt_text == "hello"
    assert vf.TaskData().prompt_text == ""
    parts = [
        vf.TextContentPart(text="What is "),
        vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url="data:image/png;base64,AA==")),
        vf.TextContentPart(text="this?"),
    ]
    data = vf.TaskData(prompt=[vf.SystemMessage(content="Be kind."), vf.UserMessage(content=parts)])
    assert data.prompt_text == "Be kind.\n\nWhat is this?"


def test_content_hash_follows_the_content_not_the_place() -> None:
    base = Data(prompt="x", answer=1)
    assert base.content_hash() == Data(idx=7, key="mine", prompt="x", answer=1).content_hash()
    assert base.content_hash() != Data(prompt="x", answer=2).content_hash()
    assert base.content_hash() != Data(prompt="y", answer=1).content_hash()


def test_key_and_name() -> None:
    assert vf.Task(Data(key="mine")).key == "mine"
    assert vf.Task(Data(prompt="x")).key == Data(prompt="x").content_hash()[:12]
    assert vf.Task(Data(name="sum")).name == "sum"
    assert vf.Task(Data(idx=3)).name == "3"


def test_placement_fields_tell_given_from_default() -> None:
    data = vf.TaskData(timeout=TaskTimeout(agent=3600), network=NetworkPolicy(allow=[]))
    assert data.timeout.model_fields_set == {"agent"}
    assert vf.TaskData().model_fields_set == set()
    with pytest.raises(TasksetError, match=r"timeout\.agent: input should be greater than 0"):
        vf.TaskData(timeout={"agent": 0})  # type: ignore[arg-type]


def test_classes_come_from_the_brackets() -> None:
    assert (Full.data_type(), Full.state_type(), Full.config_type()) == (Data, MyState, Config)
    assert (vf.Task.data_type(), vf.Task.state_type(), vf.Task.config_type()) == (
        vf.TaskData,
        vf.State,
        vf.TaskConfig,
    )


def test_brackets_pass_through_a_generic_base() -> None:
    kind = TypeVar("kind", bound=vf.TaskData)

    class Middle(vf.Task[kind, MyState], Generic[kind]):
        pass

    class Leaf(Middle[Data]):
        pass

    assert (Leaf.data_type(), Leaf.state_type(), Leaf.config_type()) == (Data, MyState, vf.TaskConfig)


def test_brackets_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(TasksetError, match=r"argument 2, the state class, must be a State, got Config"):

        class Wrong(vf.Task[Data, Config]):  # type: ignore[type-var]
            pass


def test_data_of_another_class_is_refused() -> None:
    with pytest.raises(TasksetError, match=r"write Full\(Data\(\.\.\.\)\)"):
        Full(vf.TaskData())  # type: ignore[arg-type]


def test_config_defaults_and_upgrade() -> None:
    assert Full(Data()).config == Config()
    assert Full(Data(), Config(tolerance=1)).config.tolerance == 1
    assert isinstance(Full(Data(), vf.TaskConfig()).config, Config)  # type: ignore[arg-type]
    with pytest.raises(TasksetError, match=r"declare `task: Config = Config\(\)` on the TasksetConfig"):
        Full(Data(), MyState())  # type: ignore[arg-type]


def test_state_is_typed_fresh_and_open() -> None:
    task = Full(Data())
    one, two = task.make_state(), task.make_state()
    one.calls += 1
    one.note = "free"  # type: ignore[attr-defined]
    assert (one.calls, two.calls) == (1, 0)
    assert one.note == "free"  # type: ignore[attr-defined]
    with pytest.raises(ValidationError):
        one.calls = "many"  # type: ignore[assignment]


def test_state_needs_defaults() -> None:
    class Bad(vf.State):
        path: str

    class BadTask(vf.Task[Data, Bad]):
        pass

    with pytest.raises(TasksetError, match=r"Bad\.path needs a default"):
        BadTask(Data()).make_state()


def test_repr_is_short() -> None:
    assert repr(Full(Data(idx=2, prompt="x" * 500))) == f"Full(idx=2, name='2', prompt='{'x' * 57}...')"


def test_tasks_copy_and_pickle() -> None:
    task = Full(Data(prompt="x"), Config(tolerance=2))
    for twin in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert twin.data == task.data
        assert twin.config == task.config
        assert twin.key == task.key


def test_taskset_config_defaults() -> None:
    class Set(vf.Taskset[Full]):
        def load(self) -> list[Full]:
            return [Full(Data(prompt="x"), self.config.task)]  # type: ignore[arg-type]

    assert Set().config == vf.TasksetConfig()
    assert Set().resolve()[0].config == Config()
    with pytest.raises(ConfigError, match="did you mean task"):
        Set(tsk={})
    with pytest.raises(ConfigError, match="expected TasksetConfig or a mapping, got str"):
        Set("addition")  # type: ignore[arg-type]


def test_state_is_set_by_setup() -> None:
    class Sets(vf.Task[Data, MyState]):
        async def setup(self, state: MyState) -> None:
            state.calls = 5

    trace = vf.Trace()

    asyncio.run(run_setup(Sets(Data()), trace))
    assert trace.state == MyState(calls=5)
