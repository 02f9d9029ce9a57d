"""Prompts as text, and whose system prompt counts."""

from __future__ import annotations

import pytest
from support.prompts import multimodal

import vfnb as vf
from vfnb.errors import ConfigError


def test_prompt_text_has_the_text_parts_only() -> None:
    data = vf.TaskData(prompt=multimodal())
    assert data.prompt_text == "Be brief.\n\nWhat is shown in this image?And said here?"
    assert vf.TaskData(prompt="plain").prompt_text == "plain"
    assert vf.TaskData().prompt_text == ""


def test_a_prompt_that_is_text_is_resolved() -> None:
    assert vf.resolve_text_prompt(vf.TaskData(prompt="plain")) == "plain"
    parts = [vf.TextContentPart(text="one "), vf.TextContentPart(text="two")]
    prompt = [vf.SystemMessage(content="Be brief."), vf.UserMessage(content=parts)]
    assert vf.resolve_text_prompt(vf.TaskData(prompt=prompt)) == "Be brief.\n\none two"


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (multimodal(), r"task 3: prompt\[1\] has parts of type file, image_url, input_audio.*'null'"),
        (
            [vf.UserMessage(content="a"), vf.AssistantMessage(content="b"), vf.UserMessage(content="c")],
            r"prompt\[1\] has a turn of the role 'assistant'",
        ),
        (None, "has no prompt; set TaskData.prompt"),
    ],
)
def test_a_prompt_that_would_lose_parts_is_refused(prompt: vf.Messages | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        vf.resolve_text_prompt(vf.TaskData(prompt=prompt, idx=3))


class Instructed(vf.Taskset[vf.Task, vf.TasksetConfig]):
    system_prompt = "of the taskset"

    def load(self) -> list[vf.Task]:
        return [
            vf.Task(vf.TaskData(prompt="1")),
            vf.Task(vf.TaskData(prompt="2", system_prompt="of the task")),
            vf.Task(vf.TaskData(prompt="3", system_prompt="")),
        ]


def _prompts(taskset: Instructed) -> list[str | None]:
    return [task.data.system_prompt for task in taskset]


def test_the_system_prompt_is_the_tasks_own_else_the_tasksets() -> None:
    assert _prompts(Instructed()) == ["of the taskset", "of the task", ""]


def test_a_configured_system_prompt_replaces_all_others() -> None:
    assert _prompts(Instructed(system_prompt="of the user")) == ["of the user"] * 3
    assert _prompts(Instructed(system_prompt="")) == [None] * 3


def test_another_system_prompt_keeps_keys_and_changes_the_content() -> None:
    plain, other = list(Instructed()), list(Instructed(system_prompt="of the user"))
    assert [task.key for task in plain] == [task.key for task in other]
    assert plain[0].data.content_hash() != other[0].data.content_hash()
