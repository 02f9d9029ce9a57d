"""Hooks and harnesses that overwrite the record: it is put back, and only that rollout fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.cells import run_cell

import vfnb as vf
from vfnb.errors import HookFailed
from vfnb.trace import ErrorInfo, JudgeCall, MessageGraph, Reward, Span, TaskInfo
from vfnb.trace.mending import held

Write = Callable[[vf.Trace], Any]


def clear(*path: str) -> Write:
    """Empty what an attribute path leads to."""

    def write(trace: vf.Trace) -> None:
        value: Any = trace
        for name in path:
            value = getattr(value, name)
        value.clear()

    return write


def put(**fields: Any) -> Write:
    """Set fields of the trace."""

    def write(trace: vf.Trace) -> None:
        for name, value in fields.items():
            setattr(trace, name, value)

    return write


WRITES: dict[str, list[Write]] = {
    "id": [put(id="other"), put(id=7), lambda trace: trace.__dict__.pop("id")],
    "task": [put(task=TaskInfo(key="k")), put(task=None), lambda trace: trace.task.data.update(idx=99)],
    "episode_id": [put(episode_id=object())],
    "group_id": [put(group_id="g")],
    "agent": [put(agent=None)],
    "rollout": [put(rollout="x")],
    "answer": [put(answer=b"bytes")],
    "rewards": [
        put(rewards={"mine": Reward(value=1.0)}),
        put(rewards=5),
        lambda trace: trace.rewards.update(mine=object()),
    ],
    "metrics": [put(metrics=None), lambda trace: trace.metrics.update(mine=1.0)],
    "judge_calls": [
        put(judge_calls=3),
        put(judge_calls=[]),
        lambda trace: trace.judge_calls.append(object()),
    ],
    "errors": [
        put(errors=None),
        lambda trace: trace.errors.append(ErrorInfo(type="X")),
        lambda trace: trace.errors.append(object()),
    ],
    "ok": [put(ok=5)],
    "stop_condition": [put(stop_condition="max_turns")],
    "end_state": [put(end_state="completed"), put(end_state=object())],
    "timing": [put(timing={}), lambda trace: trace.timing.update(agent=Span(start=0.0)), clear("timing")],
    "attempts": [put(attempts=[{"trace": "x"}])],
    "info": [put(info=None)],
    "tags": [put(tags="abc"), lambda trace: trace.tags.append(object())],
    "notes": [lambda trace: trace.notes.append(3)],
    "dropped": [put(dropped=5)],
    "_dag": [put(_dag=MessageGraph())],
    "_on_mark": [lambda trace: trace.on_mark(print)],
    "dag.nodes": [clear("dag", "nodes"), lambda trace: setattr(trace.dag, "nodes", [])],
    "dag.calls": [clear("dag", "calls"), lambda trace: trace.dag.calls.reverse()],
    "dag.roots": [clear("dag", "roots")],
}
ALLOWED: list[Write] = [
    lambda trace: trace.info.update(a=object(), b=b"x", warnings=3, clean_up_errors="x"),
    lambda trace: trace.tag("t"),
    lambda trace: trace.tags.append("direct"),
    lambda trace: trace.note("n"),
    put(dropped=None, info={"other": 1}),
    lambda trace: setattr(trace.calls[0], "usage", object()) if trace.calls else None,
    lambda trace: trace.branches[0].calls[0].markers.update(kind="x") if trace.branches else None,
    lambda trace: trace.calls.clear(),
    lambda trace: setattr(trace.nodes[0].message, "content", 5) if trace.nodes else None,
    lambda trace: setattr(trace, "id", trace.id),
]
CASES = [(name, write) for name, writes in WRITES.items() for write in writes]


class Writes(vf.Task[vf.TaskData]):
    """Writes at the stage that its name says, if `DOES` has something for its number."""

    DOES: dict[int, Write] = {}

    def _at(self, stage: str, trace: vf.Trace) -> None:
        if self.data.name == stage and self.data.idx in self.DOES:
            self.DOES[self.data.idx](trace)

    def setup(self, trace: vf.Trace) -> None:
        self._at("setup", trace)

    @vf.stop
    def halt(self, trace: vf.Trace) -> bool:
        self._at("stop", trace)
        return False

    @vf.intercept
    async def edit(self, response: vf.Response, trace: vf.Trace) -> None:
        self._at("intercept", trace)

    async def finalize(self, trace: vf.Trace) -> None:
        self._at("finalize", trace)

    @vf.metric
    def size(self, trace: vf.Trace) -> float:
        self._at("metric", trace)
        return 1.0

    @vf.reward
    def right(self, trace: vf.Trace) -> float:
        self._at("reward", trace)
        return 1.0


@vf.harness
async def two_turns(session: vf.HarnessSession, task: Any) -> str:
    first = await session.complete("q")
    await session.complete([*first.messages, vf.UserMessage(content="again")])
    task._at("harness", session.trace)
    return "done"


def run(folder: Path, stage: str, writes: list[Write]) -> list[vf.Trace]:
    """One rollout for each write, and one without."""
    tasks = [Writes(vf.TaskData(idx=idx, name=stage, prompt="p")) for idx in range(len(writes) + 1)]
    Writes.DOES = dict(enumerate(writes))
    done = vf.evaluate(tasks, model=vf.Scripted(lambda messages: "a"), harness=two_turns, dir=folder)
    done.wait(60, quiet=True)
    assert done.complete
    traces = {trace.task.idx: trace for trace in vf.load(folder).traces}
    return [traces[idx] for idx in range(len(tasks))]


LABELS = {
    "setup": "Writes.setup",
    "stop": "stop Writes.halt",
    "intercept": "intercept Writes.edit",
    "harness": "harness 'two_turns' or a tool",
    "finalize": "Writes.finalize",
    "metric": "metric Writes.size",
    "reward": "reward Writes.right",
}


@pytest.mark.parametrize("stage", LABELS)
def test_the_record_is_put_back_and_only_that_rollout_fails(tmp_path: Path, stage: str) -> None:
    cases = [
        (name, write)
        for name, write in CASES
        if not (name.startswith("dag.") and stage in ("setup", "stop", "harness"))
    ]
    *failed, fine = run(tmp_path / "run", stage, [write for _, write in cases])
    assert (fine.end_state, fine.reward) == ("completed", 1.0)
    assert fine.num_turns == 2
    for (name, _), trace in zip(cases, failed, strict=True):
        assert trace.end_state == "error", name
        (error,) = trace.errors
        assert error.message.startswith(f"{LABELS[stage]} changed trace.{name}; "), (name, error.message)
        assert error.type == ("ScoringError" if stage in ("metric", "reward") else error.type)
        assert trace.reward is None
        assert trace.group_id == fine.group_id or trace.group_id
        assert trace.model_validate(trace.model_dump()).model_dump() == trace.model_dump()
        if stage in ("finalize", "metric", "reward"):
            assert (trace.num_turns, len(trace.nodes)) == (2, 4)
            assert trace.answer == "done"


@pytest.mark.parametrize("stage", LABELS)
def test_what_hooks_may_write_stays_free(tmp_path: Path, stage: str) -> None:
    traces = run(tmp_path / "run", stage, ALLOWED)
    assert [(trace.end_state, trace.reward) for trace in traces] == [("completed", 1.0)] * len(traces)
    assert "t" in traces[1].tags
    assert "direct" in traces[2].tags
    assert all(call.usage is not None and not call.markers for trace in traces for call in trace.calls)


CELL = """
import vfnb as vf

class Sum(vf.Task[vf.TaskData]):
    @vf.reward
    def exact(self, trace):
        {body}
        return 1.0

class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self):
        return [Sum(vf.TaskData(prompt=str(i)), self.config.task) for i in range(3)]
"""


@pytest.mark.parametrize("name", ["id", "rewards", "errors", "timing", "end_state", "_dag"])
def test_scoring_stored_traces_anew_holds_the_record_too(tmp_path: Path, name: str) -> None:
    def rollouts(body: str) -> list[vf.Trace]:
        taskset = run_cell(CELL.format(body=body))["Sums"]()
        done = vf.evaluate(taskset, model=vf.Scripted(["a"], cycle=True), dir=tmp_path / "run")
        return list(done.wait(30, quiet=True).traces)

    before = rollouts("pass")
    after = rollouts(f"if self.data.prompt == '1': trace.{name} = 'x'")
    assert [trace.id for trace in after] == [trace.id for trace in before]
    assert [trace.end_state for trace in after] == ["completed", "error", "completed"]
    assert after[1].errors[0].message.startswith(f"reward Sum.exact changed trace.{name}; ")
    assert [trace.reward for trace in rollouts("pass  # mended")] == [1.0, 1.0, 1.0]


def test_an_exception_of_the_code_itself_comes_first() -> None:
    trace = vf.Trace()
    with pytest.raises(KeyError), held(trace, "hook x", HookFailed):
        trace.errors.append(ErrorInfo(type="X"))
        raise KeyError("own")
    assert trace.errors == []


def test_a_hook_that_outlives_its_stage_is_left_alone() -> None:
    trace, stage = vf.Trace(), Span(start=1.0)
    with held(trace, "hook x", HookFailed, stage):
        stage.end = 2.0
        trace.stop_condition = "max_turns"
    assert trace.stop_condition == "max_turns"


def test_judges_note_their_calls_inside_a_hook() -> None:
    trace = vf.Trace(judge_calls=[JudgeCall(judge="a")])
    with held(trace, "hook x", HookFailed):
        trace.judge_calls.append(JudgeCall(judge="b"))
    with pytest.raises(HookFailed, match=r"trace\.judge_calls"), held(trace, "hook x", HookFailed):
        trace.judge_calls.pop(0)
    assert [call.judge for call in trace.judge_calls] == ["a", "b"]
