"""Prompts of typed parts reach the model's endpoint unchanged, or fail before any call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.prompts import WIRE, multimodal
from support.upstream import Upstream

import vfnb as vf
from vfnb.errors import ConfigError

FORWARD = """
import json, os, sys, urllib.request
body = json.dumps({"model": "m", "messages": json.load(open(sys.argv[1]))})
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", body.encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
)
urllib.request.urlopen(request).read()
"""


class Described(vf.Task[vf.TaskData]):
    @vf.reward
    def answered(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == "hello")


def _task() -> Described:
    return Described(vf.TaskData(prompt=multimodal()))


async def _openai(session: vf.HarnessSession, task: vf.Task) -> None:
    # What a program does that has read the messages as JSON.
    await session.openai().chat.completions.create(model="m", messages=WIRE)


@pytest.mark.parametrize(
    ("harness", "runtime"),
    [
        ("null", "inprocess"),
        ("null", "subprocess"),
        (_openai, "inprocess"),
        (vf.Program([sys.executable, "go.py", "{messages_file}"], files={"go.py": FORWARD}), "subprocess"),
    ],
    ids=["null", "null program", "openai", "program"],
)
def test_typed_parts_travel_unchanged_to_the_upstream(harness: Any, runtime: str, tmp_path: Path) -> None:
    with Upstream() as upstream:
        run = vf.evaluate(
            [_task()],
            model=vf.Relay("m", base_url=upstream.url),
            harness=harness,
            runtime=runtime,
            dir=tmp_path / "run",
        ).wait(quiet=True)
    assert [call.body["messages"] for call in upstream.calls] == [WIRE]
    trace = run.traces[0]
    assert trace.reward == 1.0
    assert trace.messages[:2] == multimodal()
    assert vf.TaskData(**trace.task.data).prompt == multimodal()


@pytest.mark.parametrize("field", ["{prompt}", "{prompt_file}"])
def test_a_program_that_takes_one_text_fails_before_any_call(field: str, tmp_path: Path) -> None:
    program = vf.Program([sys.executable, "go.py", field])
    lost = r"prompt\[1\] has parts of type file, image_url, input_audio"
    with Upstream() as upstream, pytest.raises(ConfigError, match=lost):
        model = vf.Relay("m", base_url=upstream.url)
        vf.evaluate([_task()], model=model, harness=program, dir=tmp_path / "run")
    assert not upstream.calls
    assert not (tmp_path / "run").exists()


def test_a_program_gets_the_system_prompt_in_front_of_the_text_or_apart(tmp_path: Path) -> None:
    show = "import sys; print('|'.join(sys.argv[1:])); print(open(sys.argv[2]).read())"

    def shown(argv: list[str]) -> str:
        harness = vf.Program([sys.executable, "-c", show, *argv])
        data = vf.TaskData(prompt="Say {model} and {api_key}.", system_prompt="Be brief.")
        run = vf.evaluate([vf.Task(data)], model=vf.Scripted(["x"]), harness=harness, dir=tmp_path / argv[0])
        error = run.wait(quiet=True).traces[0].errors[0]
        return error.message.partition("last output:\n")[2]  # it made no call, so its output is shown

    text = "Be brief.\n\nSay {model} and {api_key}."
    assert shown(["{prompt}", "{prompt_file}"]) == f"{text}|prompt.txt\n{text}"
    alone = "Say {model} and {api_key}."
    assert shown(["{system_prompt}", "{prompt_file}"]) == f"Be brief.|prompt.txt\n{alone}"
