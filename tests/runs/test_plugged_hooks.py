"""Hooks by config over whole runs: what an edit of their file costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.addition import AdditionTaskset

import vfnb as vf
from vfnb.errors import ConfigError

HOOKS = """
import vfnb as vf

def length(trace) -> float:
    return 1.0 * len(trace.last_reply)

def enough(trace: vf.Trace) -> bool:
    return trace.num_turns >= 2

def vague(state) -> bool:
    return True
"""


@vf.harness
async def talk(session: vf.HarnessSession, task: vf.Task) -> None:
    messages: Any = task.data.prompt_text
    for _ in range(4):
        done = await session.complete(messages)
        messages = [*done.messages, vf.UserMessage(content="go on")]


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_hooks.py"
    path.write_text(HOOKS)
    return path


def run(model: vf.Scripted, **task: Any) -> vf.Run:
    config = {"num_tasks": 3, "task": task}
    return vf.evaluate(AdditionTaskset(config), model=model, harness=talk, dir="run").wait(quiet=True)


def test_editing_the_file_of_a_reward_scores_anew_without_a_model_call(hooks: Path) -> None:
    model = vf.Scripted(["four"], cycle=True)
    tables = {
        "rewards": {"length": {"fn": "my_hooks.py:length", "weight": 0.5}, "exact_match": {"weight": 0.0}}
    }
    first = run(model, **tables)
    assert model.calls == 12 and first.summary.reward.mean == 2.0
    hooks.write_text(HOOKS.replace("1.0 * len", "2.0 * len"))  # same size
    edited = run(model, **tables)
    assert model.calls == 12 and edited.summary.reward.mean == 4.0 and edited.summary.reused == 3
    tables["rewards"]["length"]["weight"] = 1.0
    heavier = run(model, **tables)
    assert model.calls == 12 and heavier.summary.reward.mean == 8.0


def test_editing_the_file_of_a_stop_runs_anew(hooks: Path) -> None:
    model = vf.Scripted(["four"], cycle=True)
    tables = {"stops": {"enough": "my_hooks.py:enough"}, "metrics": {"length": "my_hooks.py:length"}}
    first = run(model, **tables)
    assert model.calls == 6 and {trace.stop_condition for trace in first.traces} == {"enough"}
    hooks.write_text(HOOKS.replace(">= 2", ">= 3"))
    run(model, **tables)
    assert model.calls == 6 + 9


def test_skip_scoring_can_be_switched_without_a_model_call(hooks: Path) -> None:
    model = vf.Scripted(["four"], cycle=True)

    def score(skip: bool | None) -> vf.Run:
        entry = {"fn": "my_hooks.py:enough"} | ({} if skip is None else {"skip_scoring": skip})
        return run(model, stops={"enough": entry}, rewards={"length": "my_hooks.py:length"})

    plain = score(None)
    assert (plain.summary.reward.mean, plain.summary.skipped) == (4.0, 0)
    skipped = score(True)
    assert (skipped.summary.reward.mean, skipped.summary.skipped) == (0.0, 3)
    assert {trace.info["scoring_skipped"] for trace in skipped.traces} == {"enough"}
    back = score(False)
    assert (back.summary.reward.mean, back.summary.skipped) == (4.0, 0)
    again = score(True)
    assert (again.summary.reward.mean, again.summary.skipped) == (0.0, 3)
    assert model.calls == 6


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (
            {"rewards": {"length": {"weight": 1.0}}},
            "task.rewards.length: AdditionTask has no reward 'length'",
        ),
        ({"rewards": {"length": {"fn": "my_hook.py:length"}}}, "task.rewards.length.fn: there is no file"),
        ({"stops": {"x": {"fn": "my_hooks.py:vague"}}}, "task.stops.x.fn: stop vague"),
    ],
)
def test_a_wrong_table_is_refused_before_any_model_call(hooks: Path, task: Any, said: str) -> None:
    model = vf.Scripted(["unused"])
    with pytest.raises(ConfigError) as caught:
        run(model, **task)
    assert said in str(caught.value)
    assert model.calls == 0 and not Path("run").exists()


def test_rewrites_and_replaced_answers_survive_on_disk(hooks: Path) -> None:
    class Polite(vf.Task):
        @vf.intercept
        def ask_nicely(self, request: vf.Request) -> vf.Request | None:
            last = request.messages[-1]
            last.content = "please " + last.text
            return request

        @vf.intercept
        def answer_nicely(self, response: vf.Response) -> vf.Response:
            return response.model_copy(update={"message": vf.AssistantMessage(content="with pleasure")})

        @vf.reward
        def nice(self, trace: vf.Trace) -> float:
            return float(trace.last_reply == "with pleasure")

    model = vf.Scripted(["no"], cycle=True)
    tasks = [Polite(vf.TaskData(prompt="begin"))]
    vf.evaluate(tasks, model=model, harness=talk, dir="run").wait(quiet=True)
    (trace,) = vf.load("run").traces
    assert trace.reward == 1.0 and trace.last_reply == "with pleasure"
    assert [(one.hook, one.before.text, one.after.text) for one in trace.rewrites[:2]] == [
        ("ask_nicely", "begin", "please begin"),
        ("answer_nicely", "no", "with pleasure"),
    ]
    assert len(trace.rewrites) == 8
