"""Stops in whole rollouts: when they run, what they leave on the trace, what happens to the scores."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import ConfigError


@vf.harness
async def three_turns(session: vf.HarnessSession, task: vf.Task) -> None:
    messages: Any = task.data.prompt_text
    for _ in range(3):
        done = await session.complete(messages)
        messages = [*done.messages, vf.UserMessage(content="go on")]


def count(messages: vf.Messages) -> str:
    return f"reply {sum(message.role == 'assistant' for message in messages) + 1}"


def run(
    task_class: type[vf.Task], script: Callable[..., Any] = count, harness: Any = three_turns
) -> vf.Trace:
    data = vf.TaskData(prompt="begin")
    return asyncio.run(vf.make_agent(harness, model=vf.Scripted(script)).run(task_class(data)))


def test_a_stop_ends_the_run_and_its_name_is_the_stop_condition() -> None:
    class Stops(vf.Task):
        @vf.stop
        def two_turns(self, trace: vf.Trace) -> bool:
            return trace.num_turns >= 2

        @vf.reward
        def turns(self, trace: vf.Trace) -> float:
            return trace.num_turns

    trace = run(Stops)
    assert (trace.end_state, trace.stop_condition, trace.num_turns) == ("stopped", "two_turns", 2)
    assert not trace.errors


def test_a_stop_ends_the_run_but_the_task_still_scores_it() -> None:
    class Stops(vf.Task):
        @vf.stop
        async def at_once(self, trace: vf.Trace) -> bool:
            await asyncio.sleep(0)
            return trace.num_turns == 1

        @vf.metric
        def seen(self, trace: vf.Trace) -> float:
            return 3.0

        @vf.reward
        def right(self, trace: vf.Trace) -> float:
            return float(trace.last_reply == "reply 1")

    trace = run(Stops)
    assert trace.reward == 1.0 and trace.metrics == {"seen": 3.0}
    assert "scoring_skipped" not in trace.info


def test_request_stops_run_before_the_request_is_sent() -> None:
    asked: list[int] = []

    def script(messages: vf.Messages) -> str:
        asked.append(len(messages))
        return "words"

    class Stops(vf.Task):
        @vf.stop
        def long(self, request: vf.Request) -> bool:
            return len(request.messages) > 1 and request.messages[-1].text == "go on"

    trace = run(Stops, script)
    assert asked == [1] and trace.stop_condition == "long" and trace.num_turns == 1


def test_response_stops_run_before_the_answer_reaches_the_harness() -> None:
    got: list[str] = []

    @vf.harness
    async def listen(session: vf.HarnessSession, task: vf.Task) -> None:
        for text in ("a", "b"):
            got.append((await session.complete(text)).text)  # noqa: PERF401

    class Stops(vf.Task):
        @vf.stop
        def secret(self, response: vf.Response, trace: vf.Trace) -> bool:
            return "42" in response.text and trace.num_turns == 2

    replies = iter(["fine", "it is 42"])
    trace = run(Stops, lambda messages: next(replies), listen)
    assert got == ["fine"] and trace.stop_condition == "secret"
    assert trace.last_reply == "it is 42"  # recorded all the same: the reward can look at it


def test_trace_stops_run_before_each_model_call() -> None:
    seen: list[int] = []

    class Stops(vf.Task):
        @vf.stop
        def watch(self, trace: vf.Trace) -> bool:
            seen.append(trace.num_turns)
            return False

    trace = run(Stops)
    assert seen == [0, 1, 2] and trace.end_state == "completed"


def test_skip_scoring_keeps_no_scores_and_finalize_still_runs() -> None:
    class Stops(vf.Task):
        @vf.stop(skip_scoring=True)
        def broken(self, trace: vf.Trace) -> bool:
            return trace.num_turns == 1

        def finalize(self, trace: vf.Trace) -> None:
            trace.info["finalized"] = True

        @vf.metric
        def seen(self, trace: vf.Trace) -> float:
            return 1.0

        @vf.reward
        def right(self, trace: vf.Trace) -> float:
            return 1.0

    trace = run(Stops)
    assert trace.info == {"finalized": True, "scoring_skipped": "broken"}
    assert trace.rewards == {} and trace.metrics == {} and trace.reward == 0.0
    assert trace.stop_condition == "broken" and trace.ok

    class Other(Stops):
        @vf.stop(priority=1)
        def earlier(self, trace: vf.Trace) -> bool:
            return trace.num_turns == 1

    trace = run(Other)  # only a trace that this stop ends is not scored
    assert trace.stop_condition == "earlier" and trace.reward == 1.0 and trace.metrics == {"seen": 1.0}


def test_a_plugged_stop_can_skip_the_scoring() -> None:
    def enough(trace: vf.Trace) -> bool:
        return trace.num_turns >= 1

    class Scored(vf.Task):
        @vf.reward
        def right(self) -> float:
            return 1.0

    config = vf.TaskConfig(stops={"enough": {"fn": enough, "skip_scoring": True}})
    agent = vf.make_agent(three_turns, model=vf.Scripted(count))
    trace = asyncio.run(agent.run(Scored(vf.TaskData(prompt="begin"), config)))
    assert trace.info["scoring_skipped"] == "enough" and trace.reward == 0.0


def test_stops_run_by_priority_then_in_the_order_of_definition() -> None:
    seen: list[str] = []

    class Stops(vf.Task):
        @vf.stop
        def last(self, trace: vf.Trace) -> bool:
            seen.append("last")
            return True

        @vf.stop(priority=2)
        def first(self, trace: vf.Trace) -> bool:
            seen.append("first")
            return False

        @vf.stop(priority=2)
        def second(self, trace: vf.Trace) -> bool:
            seen.append("second")
            return False

    assert run(Stops).stop_condition == "last" and seen == ["first", "second", "last"]


async def fails(**given: Any) -> bool:
    await asyncio.sleep(0)
    raise KeyError("no such file")


class OnTrace(vf.Task):
    @vf.stop
    async def broken(self, trace: vf.Trace) -> bool:
        return await fails()


class OnRequest(vf.Task):
    @vf.stop
    def broken(self, request: vf.Request) -> bool:
        raise KeyError("no such file")


class OnResponse(vf.Task):
    @vf.stop
    async def broken(self, response: vf.Response) -> bool:
        return await fails()


@pytest.mark.parametrize("stops", [OnTrace, OnRequest, OnResponse])
def test_a_failing_stop_is_an_error_of_the_rollout_that_names_it(stops: type[vf.Task]) -> None:
    trace = run(stops)
    assert trace.end_state == "error" and trace.reward is None
    error = trace.errors[-1]
    assert (error.type, error.boundary, error.stage) == ("HookFailed", "hook", "agent")
    assert error.message == f"stop {stops.__name__}.broken raised KeyError: 'no such file'"


def test_what_a_stop_returns_must_be_a_truth_value() -> None:
    class Stops(vf.Task):
        @vf.stop
        def vague(self, trace: vf.Trace) -> Any:
            return "yes"

    assert "stop Stops.vague returned 'yes'; return True" in run(Stops).errors[-1].message

    class Silent(vf.Task):
        @vf.stop
        def silent(self, trace: vf.Trace) -> Any:
            return None

    assert run(Silent).end_state == "completed"


def test_hooks_see_task_state_and_runtime_and_run_off_the_engine_loop() -> None:
    threads: list[str] = []

    class Counted(vf.State):
        asked: int = 0

    class Stops(vf.Task[vf.TaskData, Counted]):
        @vf.stop
        def sync(self, request: vf.Request, state: Counted, task: vf.TaskData, runtime: vf.Runtime) -> bool:
            state.asked += 1
            threads.append(threading.current_thread().name)
            return state.asked == 2 and task.prompt == "begin" and runtime is not None

        @vf.stop
        async def awaits(self, trace: vf.Trace) -> bool:
            await asyncio.sleep(0)
            threads.append(threading.current_thread().name)
            return False

    trace = run(Stops)
    assert trace.stop_condition == "sync" and trace.state.asked == 2
    assert set(threads) == {"vfnb-worker", "vfnb-hooks"}


def test_a_config_that_names_no_stop_is_refused_before_any_call() -> None:
    task = vf.Task(vf.TaskData(prompt="begin"), vf.TaskConfig(stops={"nothing": {"skip_scoring": True}}))
    model = vf.Scripted(count)
    with pytest.raises(ConfigError, match=r"task\.stops\.nothing: Task has no stop 'nothing'"):
        asyncio.run(vf.make_agent(three_turns, model=model).run(task))
    assert model.calls == 0


@pytest.mark.parametrize("stage", ["request", "response"])
def test_a_hook_that_hangs_is_not_blamed_on_the_endpoint(stage: str) -> None:
    class Slow(vf.Task):
        @vf.stop(on=stage)
        async def asleep(self, payload: Any) -> bool:
            await asyncio.sleep(30)
            return False

    agent = vf.make_agent(three_turns, model=vf.Scripted(count), timeouts={"agent": 0.4})
    trace = asyncio.run(agent.run(Slow(vf.TaskData(prompt="begin"))))
    assert (trace.end_state, trace.stop_condition) == ("stopped", "timeout"), trace.errors
