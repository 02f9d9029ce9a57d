"""Example tasksets that work in a runtime, with real files, git and shell."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.boxes import in_box, sh
from support.examples import solve
from support.scripts import asks, call, results, turns
from vfnb_tasksets.file_swe import FileSWETaskset
from vfnb_tasksets.guarded import GuardedTaskset

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.tasks import run_setup, run_validate

BOX = {"harness": "bash", "runtime": "subprocess"}


def test_a_repair_is_captured_and_rewarded(tmp_path: Path) -> None:
    model, _ = turns(
        asks(call("edit", path="stats.py", old="//", new="/")),
        asks(
            call(
                "bash",
                command="git -c user.name=a -c user.email=a@b commit -qam fix && echo mean > answer.txt",
            )
        ),
        "I repaired it.",
    )
    (trace,) = solve(FileSWETaskset().take(1), model, tmp_path, **BOX)
    assert trace.reward == 1.0 and trace.rewards["located"].value == 1.0
    assert trace.info["answer"] == "mean"
    assert "-    return total(values) // len(values)" in trace.info["patch"]
    assert "answer.txt" not in trace.info["patch"] and "hidden_check" not in trace.info["patch"]
    assert trace.metrics["patch_lines"] == 2.0


def test_no_repair_and_a_wrong_one(tmp_path: Path) -> None:
    def model(messages: vf.Messages) -> Any:
        if "slugs.py" in messages[-1].text:
            return asks(call("bash", command="echo 'def slug(t): return 1' > slugs.py; rm .gitignore"))
        return "`words`"

    first, second = solve(FileSWETaskset(), model, tmp_path, **BOX)
    assert (first.reward, second.reward) == (0.0, 0.0)
    assert first.info["patch"] == "" and first.metrics["patch_lines"] == 0.0
    assert first.rewards["located"].value == 0.0 and second.rewards["located"].value == 1.0
    assert "+def slug(t): return 1" in second.info["patch"]


@pytest.mark.parametrize("index", [0, 1])
def test_the_reference_repair_validates_the_task(index: int) -> None:
    task = FileSWETaskset().resolve()[index]

    async def check(box: vf.Runtime) -> tuple[bool | None, str]:
        trace = vf.Trace()
        await run_setup(task, trace, box)
        files = await sh(box, "git ls-files")
        return await run_validate(task, box), files

    valid, files = in_box(check)
    assert valid is True
    assert files.split() == [".gitignore", task.data.file]


def test_honest_work_is_not_disturbed_by_the_guard(tmp_path: Path) -> None:
    model, _ = turns(
        asks(call("bash", command="grep -c ERROR log.txt")), lambda messages: results(messages)[0].split()[0]
    )
    (trace,) = solve(GuardedTaskset().take(1), model, tmp_path, **BOX)
    assert trace.reward == 1.0 and trace.metrics["attempts"] == 0.0 and trace.end_state == "completed"


def test_the_key_is_neither_read_nor_seen(tmp_path: Path) -> None:
    model, asked = turns(
        asks(call("bash", command="cat answer.key")), asks(call("bash", command="cat *")), "20"
    )
    task = GuardedTaskset().resolve()[0]
    assert task.data.answer != 20
    (trace,) = solve(GuardedTaskset().take(1), model, tmp_path, **BOX)
    assert results(asked[1]) == ["Not allowed: answer.key is for the grader. Count the lines of log.txt."]
    assert "KEY (hidden)" in results(asked[2])[0] and f"KEY {task.data.answer}" not in str(asked)
    assert trace.reward == 0.0 and trace.metrics["attempts"] == 2.0 and trace.stop_condition is None


def test_the_run_ends_after_a_few_attempts_and_is_scored(tmp_path: Path) -> None:
    (trace,) = solve(
        GuardedTaskset({"task": {"max_attempts": 2}}).take(1),
        lambda messages: asks(call("bash", command="cat ./answer.key")),
        tmp_path,
        **BOX,
    )
    assert trace.stop_condition == "enough" and len(trace.calls) == 2
    assert trace.reward == 0.0 and trace.metrics["attempts"] == 2.0


def test_a_guard_needs_a_harness_that_asks() -> None:
    @vf.harness
    async def blind(session: vf.HarnessSession, task: vf.Task[Any, Any, Any]) -> None:
        await session.complete(task.data.prompt_text)

    agent = vf.make_agent(blind, model=vf.Scripted(["x"]), runtime="subprocess")
    with pytest.raises(ConfigError, match="gate"):
        asyncio.run(agent.run(GuardedTaskset().resolve()[0]))
