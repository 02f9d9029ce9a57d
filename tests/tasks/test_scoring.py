"""Scoring: order, names, weights; a failure is an error and never a zero."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

import vfnb as vf
from vfnb.errors import HookError, ModelError, ScoringError, StageTimeout, UpstreamServerError
from vfnb.runtimes import InProcessRuntime
from vfnb.tasks import plain_hook, run_finalize, run_setup, run_validate, score


class Data(vf.TaskData):
    answer: str = "4"


def scored(cls: type[Any], trace: vf.Trace | None = None, **kwargs: Any) -> Any:
    return asyncio.run(score(cls(Data()), trace or vf.Trace(answer="4"), **kwargs))


def failing(value: Any, kind: Any = vf.reward) -> tuple[str, vf.Trace]:
    """The message of scoring with a hook that returns or raises `value`."""

    class Bad(vf.Task[Data]):
        @vf.reward
        def good(self) -> float:
            return 1.0

        @kind
        def bad(self) -> Any:
            if isinstance(value, Exception):
                raise value
            return value

    trace = vf.Trace()
    with pytest.raises(ScoringError) as caught:
        scored(Bad, trace)
    if isinstance(value, Exception):
        assert caught.value.__cause__ is value
    return str(caught.value), trace


def test_metrics_run_before_rewards_and_higher_priority_first() -> None:
    order: list[str] = []

    class Ordered(vf.Task[Data]):
        @vf.reward
        def late(self) -> float:
            order.append("late")
            return 1.0

        @vf.reward(priority=5)
        async def early(self, trace: vf.Trace) -> float:
            order.append("early")
            return trace.metrics["measured"] or 0.0

        @vf.metric(priority=-1)
        def last_metric(self) -> int:
            order.append("last_metric")
            return 1

        @vf.metric
        def measured(self) -> bool:
            order.append("measured")
            return True

    scores = scored(Ordered)
    assert order == ["measured", "last_metric", "early", "late"]
    assert scores.metrics == {"measured": 1.0, "last_metric": 1.0}
    assert scores.rewards["early"].value == 1.0


def test_hooks_get_what_they_name() -> None:
    runtime = InProcessRuntime()
    seen: dict[str, Any] = {}

    class Curious(vf.Task[Data]):
        @vf.reward
        def all_of_it(self, state: vf.State, task: Data, runtime: Any, trace: vf.Trace) -> float:
            seen.update(self=self, state=state, task=task, runtime=runtime, trace=trace)
            return 1.0

    task, trace = Curious(Data(answer="9")), vf.Trace()

    async def main() -> None:
        await run_setup(task, trace, runtime)
        await score(task, trace, runtime)

    asyncio.run(main())
    assert seen["self"] is task
    assert seen["task"] is task.data
    assert seen["trace"] is trace
    assert seen["runtime"] is runtime
    assert seen["state"] is trace.state


def test_weights_and_the_sum() -> None:
    class Weighted(vf.Task[Data]):
        @vf.reward(weight=0.5)
        def half(self) -> float:
            return 1.0

        @vf.reward(weight=0.0)
        def logged(self) -> float:
            return 7.0

        @vf.reward
        def named(self) -> dict[str, float]:
            return {"style": 0.25, "format": 1}

    trace = vf.Trace(end_state="completed")
    scores = scored(Weighted, trace)
    assert {name: (item.value, item.weight) for name, item in scores.rewards.items()} == {
        "half": (1.0, 0.5),
        "logged": (7.0, 0.0),
        "style": (0.25, 1.0),
        "format": (1.0, 1.0),
    }
    assert scores.reward == trace.reward == 1.75
    assert set(trace.rewards) == set(scores.rewards)


def test_no_reward_function_gives_no_reward() -> None:
    assert scored(vf.Task).reward is None


@pytest.mark.parametrize(
    "value", [1, 0.5, True, np.float32(0.5), np.int64(2), np.bool_(True), np.array(0.25)], ids=str
)
def test_numbers_of_any_kind(value: Any) -> None:
    class Typed(vf.Task[Data]):
        @vf.reward
        def number(self) -> Any:
            return value

    got = scored(Typed).rewards["number"].value
    assert type(got) is float
    assert got == float(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "reward Bad.bad returned nan; return a finite number, or raise if there is no score"),
        (float("inf"), "reward Bad.bad returned inf"),
        (None, "reward Bad.bad returned None, which is not a number; a `return` is missing"),
        ("1.0", "reward Bad.bad returned '1.0', which is not a number; return a float"),
        ({"a": float("nan")}, "reward Bad.bad['a'] returned nan"),
        ({3: 1.0}, "a dict with the key 3"),
        (ZeroDivisionError("division by zero"), "reward Bad.bad raised ZeroDivisionError: division by zero"),
    ],
    ids=repr,
)
def test_bad_results_are_errors_that_name_the_hook(value: Any, text: str) -> None:
    message, trace = failing(value)
    assert text in message
    assert trace.rewards["bad"].value is None
    assert trace.reward is None
    assert trace.rewards["good"].value == 1.0


def test_a_failed_metric_leaves_none_and_stops_the_scoring() -> None:
    message, trace = failing(float("nan"), vf.metric)
    assert message.startswith("metric Bad.bad returned nan")
    assert trace.metrics == {"bad": None}
    assert [one.value for one in trace.rewards.values()] == [None]


def test_a_failing_service_keeps_whether_a_retry_may_help() -> None:
    class Judged(vf.Task[Data]):
        @vf.reward
        async def judged(self) -> float:
            raise UpstreamServerError("502", status=502)

    class Refused(vf.Task[Data]):
        @vf.reward
        async def judged(self) -> float:
            raise ModelError("no")

    for cls, retryable in ((Judged, True), (Refused, False)):
        with pytest.raises(ScoringError) as caught:
            scored(cls)
        assert caught.value.retryable is retryable


def test_names_that_collide_are_an_error() -> None:
    class Clash(vf.Task[Data]):
        @vf.metric
        def length(self) -> float:
            return 1.0

        @vf.reward
        def several(self) -> dict[str, float]:
            return {"length": 1.0}

    with pytest.raises(
        ScoringError, match=r"reward Clash\.several and metric Clash\.length both give .*'length'"
    ):
        scored(Clash)


def test_a_hook_that_needs_a_runtime_says_so_before_anything_runs() -> None:
    ran: list[int] = []

    class Live(vf.Task[Data]):
        @vf.metric
        def cheap(self) -> float:
            ran.append(1)
            return 1.0

        @vf.reward
        async def tests_pass(self, runtime: vf.Runtime) -> float:
            return 1.0

    with pytest.raises(ScoringError, match=r"reward Live\.tests_pass needs a runtime"):
        scored(Live)
    assert ran == []


def test_own_hooks_in_place_of_the_task_s() -> None:
    @vf.reward(weight=2)
    def concise(trace: vf.Trace) -> float:
        return 1.0 / (1 + len(trace.last_reply))

    scores = scored(vf.Task, hooks=[plain_hook(concise)])
    assert scores.reward == 1.0
    assert list(scores.rewards) == ["concise"]


def test_deadline_of_a_hook_names_it() -> None:
    class Slow(vf.Task[Data]):
        @vf.reward
        async def slow(self) -> float:
            await asyncio.sleep(30)
            return 1.0

    with pytest.raises(StageTimeout, match=r"reward Slow\.slow took longer than 0\.1 s"):
        scored(Slow, timeout=0.1)


def test_prints_go_to_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    class Chatty(vf.Task[Data]):
        @vf.metric
        def one(self) -> float:
            print("from a thread")
            return 1.0

        @vf.reward
        async def two(self) -> float:
            await asyncio.sleep(0)
            print("from the loop")
            return 1.0

    lines: list[str] = []
    scored(Chatty, log=lines.append)
    assert "".join(lines) == "from a thread\nfrom the loop\n"
    assert capsys.readouterr().out == ""


def test_lifecycle_hooks_see_trace_and_runtime() -> None:
    class Staged(vf.Task[Data]):
        async def setup(self, runtime: vf.Runtime) -> None:
            await runtime.write("context.txt", b"context")

        def finalize(self, trace: vf.Trace) -> None:
            trace.info["answer"] = trace.last_reply

        async def validate(self, runtime: vf.Runtime) -> bool | None:
            return await runtime.read("context.txt") == b"context"

    async def main() -> None:
        runtime, trace, task = InProcessRuntime(), vf.Trace(answer="x"), Staged(Data())
        await run_setup(task, trace, runtime)
        await run_finalize(task, trace, runtime)
        assert trace.info["answer"] == "x"
        assert await run_validate(task, runtime) is True
        assert await run_validate(vf.Task(Data()), runtime) is None
        await runtime.stop()

    asyncio.run(main())


def test_what_a_lifecycle_hook_raises_is_passed_on() -> None:
    class Broken(vf.Task[Data]):
        def setup(self) -> None:
            raise KeyError("repo")

        async def validate(self) -> Any:
            return 1

    async def main() -> None:
        with pytest.raises(KeyError, match="repo"):
            await run_setup(Broken(Data()), vf.Trace())
        with pytest.raises(HookError, match=r"Broken\.validate returned 1; return True, False or None"):
            await run_validate(Broken(Data()), InProcessRuntime())

    asyncio.run(main())


def test_scoring_again_replaces_only_its_own_signals() -> None:
    trace = vf.Trace(metrics={"harness_turns": 3.0})

    class Once(vf.Task[Data]):
        @vf.reward
        def value(self) -> float:
            return 1.0

    run: Callable[[], Coroutine[Any, Any, Any]] = lambda: score(Once(Data()), trace)  # noqa: E731
    asyncio.run(run())
    asyncio.run(run())
    assert trace.metrics == {"harness_turns": 3.0}
    assert len(trace.rewards) == 1
