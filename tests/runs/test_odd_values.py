"""Values that JSON, UTF-8 or SQLite cannot hold cost no rollout, and never the run."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfnb as vf
from vfnb.errors import TasksetError

HALF = "half \ud83d of it"


def start(tmp_path: Path, tasks: list[Any], **options: Any) -> vf.Run:
    options.setdefault("model", vf.Scripted(lambda messages: "a"))
    return vf.evaluate(tasks, dir=tmp_path / "run", **options).wait(30, quiet=True)


def looked_at(run: vf.Run) -> vf.Trace:
    """The first trace, after everything that shows or dumps it."""
    trace = run.traces[0]
    again = vf.Trace.model_validate_json(trace.model_dump_json())
    assert again.messages == trace.messages
    assert vf.Trace.model_validate(trace.model_dump()).messages == trace.messages
    trace._repr_mimebundle_()
    texts = [str(run), repr(run), str(run.sample(1)), repr(trace)]
    levels = ("traces", "branches", "messages", "calls", "errors")
    texts += [run.frame(level).to_string() for level in levels]
    "".join(texts).encode()
    assert not run.rewards.empty
    return trace


class Leaves(vf.Task[vf.TaskData]):
    """Leaves something odd in `info` and `state`."""

    def finalize(self, trace: vf.Trace) -> None:
        deep: Any = 1
        for _ in range(3000):
            deep = [deep]
        odd = {
            "array": np.zeros(2),
            "object": object(),
            "bytes": b"\xff",
            "function": looked_at,
            "text": HALF,
            "deep": deep,
            HALF: 1,
        }
        trace.info.update(odd)
        trace.state.odd = odd


def test_what_hooks_leave_behind(tmp_path: Path) -> None:
    run = start(tmp_path, [Leaves(vf.TaskData(prompt="p"))])
    trace = looked_at(run)
    assert (trace.end_state, trace.info["array"], trace.info["bytes"]) == ("completed", [0.0, 0.0], "\\xff")
    state = run._reader.state(trace.id)
    assert state is not None
    assert state["odd"]["array"] == [0.0, 0.0]


def test_a_trace_that_was_never_stored_can_be_dumped() -> None:
    trace = vf.Trace(info={"array": np.zeros(2), "text": HALF})
    assert json.loads(trace.model_dump_json())["info"]["array"] == [0.0, 0.0]
    assert trace.model_dump()["info"]["text"] == HALF


def test_half_characters_in_the_task(tmp_path: Path) -> None:
    run = start(tmp_path, [vf.Task(vf.TaskData(prompt=HALF, name=HALF, description=HALF))])
    trace = looked_at(run)
    assert trace.messages[0].text == HALF
    assert trace.task.data["prompt"] == HALF
    assert "half" in run.tasks.to_string()


def test_half_characters_in_a_reply(tmp_path: Path) -> None:
    run = start(tmp_path, [vf.Task(vf.TaskData(prompt="p"))], model=vf.Scripted([HALF]))
    assert looked_at(run).last_reply == HALF


class Names(vf.Task[vf.TaskData]):
    @vf.reward
    def scores(self, trace: vf.Trace) -> dict[str, float]:
        trace.tag(HALF)
        trace.note(HALF)
        return {HALF: 1.0}

    @vf.metric
    def raises(self, trace: vf.Trace) -> float:
        if self.data.idx:
            raise ValueError(HALF * 5000)
        return 1.0


def test_half_characters_in_scores_marks_and_errors(tmp_path: Path) -> None:
    run = start(tmp_path, [Names(vf.TaskData(idx=idx, prompt="p")) for idx in range(2)])
    assert looked_at(run).reward == 1.0
    assert run.traces[0].tags == [r"half \ud83d of it"]
    assert len(run.traces[1].errors[-1].message) < 17_000


@pytest.mark.parametrize("value", [Decimal("0.5"), np.float32(0.5), np.array(0.5)])
def test_numbers_of_other_kinds(tmp_path: Path, value: Any) -> None:
    class Gives(vf.Task[vf.TaskData]):
        @vf.reward
        def given(self, trace: vf.Trace) -> Any:
            return value

    assert start(tmp_path, [Gives(vf.TaskData(prompt="p"))]).traces[0].reward == 0.5


@pytest.mark.parametrize("value", [10**400, Decimal("Infinity"), Decimal("sNaN"), 1j])
def test_numbers_that_are_none(tmp_path: Path, value: Any) -> None:
    class Gives(vf.Task[vf.TaskData]):
        @vf.reward
        def given(self, trace: vf.Trace) -> Any:
            return value

    error = start(tmp_path, [Gives(vf.TaskData(prompt="p"))]).traces[0].errors[-1]
    assert error.type == "ScoringError"
    assert "Gives.given" in error.message


class Odd(vf.TaskData):
    extra: Any = None


@pytest.mark.parametrize("value", [np.zeros(1), object(), b"\xff", {"\ud800": 1}])
def test_task_data_that_is_no_json_is_refused_by_name(tmp_path: Path, value: Any) -> None:
    with pytest.raises(TasksetError, match=r"Odd\.extra .*JSON.*setup"):
        start(tmp_path, [vf.Task[Odd](Odd(prompt="p", extra=value))])


def test_a_position_that_no_table_can_hold_is_refused() -> None:
    with pytest.raises(TasksetError, match="idx"):
        vf.TaskData(idx=2**63)


def test_many_tasks_start_soon(tmp_path: Path) -> None:
    """Each with a config of its own, as in a plain list."""
    import time

    tasks = [vf.Task(vf.TaskData(idx=idx, prompt=f"p{idx}")) for idx in range(5000)]
    begun = time.monotonic()
    run = vf.evaluate(tasks, model=vf.Scripted(lambda messages: "a", latency=60), dir=tmp_path / "run")
    took = time.monotonic() - begun
    run.cancel()
    assert took < 20  # 25 s on an idle machine when each task searched its class anew


def test_half_characters_and_huge_numbers_in_logs_tools_and_sampling(tmp_path: Path) -> None:
    tool = vf.Tool(name=f"f{HALF}", description=HALF, parameters={"type": "object", "maximum": 2**80})

    @vf.harness
    async def odd(session: vf.HarnessSession, task: vf.Task) -> str:
        session.log(HALF, 10**6000, 2**70)
        reply = await session.complete("q", tools=[tool], seed=2**70, user=HALF, metadata={"n": 2**80})
        return reply.text

    class Prints(vf.Task[vf.TaskData]):
        @vf.reward
        def prints(self, trace: vf.Trace) -> float:
            print(HALF, 2**80)
            return 1.0

    sampling = {"seed": 2**70, "stop": [HALF], "extra_body": {"a": HALF, "b": 2**80}}
    task = Prints(vf.TaskData(prompt="p"))
    trace = looked_at(start(tmp_path, [task], harness=odd, sampling=sampling))
    assert (trace.end_state, trace.reward) == ("completed", 1.0)
    (call,) = trace.calls
    assert trace.dag.tool_list(call.tools)[0].parameters["maximum"] == 2**80
    (log,) = (tmp_path / "run" / "logs").glob("*.log")
    text = log.read_text()
    assert "half \\ud83d of it" in text
    assert "4300 digits" in text
    assert str(2**80) in text


def test_a_log_is_bounded_and_says_so(tmp_path: Path) -> None:
    @vf.harness
    async def chatty(session: vf.HarnessSession, task: vf.Task) -> str:
        for _ in range(40):
            session.log("é" * 500_000)
        session.log("unheard")
        return "done"

    start(tmp_path, [vf.Task(vf.TaskData(prompt="p"))], harness=chatty)
    (log,) = (tmp_path / "run" / "logs").glob("*.log")
    data = log.read_bytes()
    assert (16 << 20) <= len(data) < (16 << 20) + 200
    assert data.endswith(b"\n[the log ends here: 16777216 bytes are kept of a rollout's log]\n")
