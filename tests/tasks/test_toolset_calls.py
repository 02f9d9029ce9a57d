"""Direct calls: whose state, in which order, for how long, and what becomes of failures."""

from __future__ import annotations

import asyncio
import queue
import resource
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.cells import run_cell
from support.tools import call, play, play_all, tool_task

import vfnb as vf
from vfnb.errors import ToolServerError


class Box(vf.State):
    calls: int = 0
    log: list[str] = []


class Naughty(vf.Toolset):
    config: vf.SharedToolsetConfig

    @vf.tool
    def raises(self) -> str:
        raise ValueError("out of luck")

    @vf.tool
    def complains(self) -> str:
        raise vf.ToolError("the file is locked, try another one")

    @vf.tool(timeout=0.2)
    def hangs(self) -> str:
        time.sleep(1.5)
        return "late"

    @vf.tool(timeout=0.2)
    async def waits(self) -> str:
        await asyncio.sleep(30)
        return "late"

    @vf.tool
    def big(self, size: int) -> str:
        return "x" * size

    @vf.tool
    def picture(self) -> list[Any]:
        return ["a dot:", Image.new("RGB", (1, 1))]

    @vf.tool
    def part(self) -> vf.ImageUrlContentPart:
        return vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url="https://example.com/a.png"))

    @vf.tool
    def strange(self) -> Any:
        return threading.Lock()

    @vf.tool
    async def exits(self) -> None:
        raise SystemExit(3)

    @vf.tool
    def ok(self) -> dict[str, float]:
        return {"x": 0.5}


def test_what_goes_wrong_is_a_tool_error_and_the_rollout_goes_on() -> None:
    async def act(session: vf.HarnessSession) -> None:
        for name, arguments, text in (
            ("raises", {}, "Error: tool raises raised ValueError: out of luck"),
            ("complains", {}, "Error: the file is locked, try another one"),
            ("hangs", {}, "Error: tool hangs did not answer within 0.2 s"),
            ("waits", {}, "Error: tool waits did not answer within 0.2 s"),
            (
                "big",
                {"size": 5_000_000},
                "Error: the result of big has 5,000,000 bytes, the limit is 1,000,000; ask",
            ),
            ("strange", {}, "Error: tool strange raised TypeError: it returned lock, which has no JSON form"),
        ):
            start = time.monotonic()
            message = await session.call_tool(call(name, **arguments))
            assert message.is_error, name
            assert message.text.startswith(text), message.text
            assert time.monotonic() - start < 1.4, name
        assert (await session.call_tool(call("ok"))).text == '{"x":0.5}'

    assert play(tool_task(Naughty), act).errors == []


def test_an_image_arrives_as_an_image() -> None:
    async def act(session: vf.HarnessSession) -> None:
        message = await session.call_tool(call("picture"))
        text, image = message.content
        assert text == vf.TextContentPart(text="a dot:")
        assert isinstance(image, vf.ImageUrlContentPart)
        assert image.image_url.url.startswith("data:image/png;base64,iVBOR")
        (part,) = (await session.call_tool(call("part"))).content
        assert isinstance(part, vf.ImageUrlContentPart)

    assert play(tool_task(Naughty), act).errors == []


def test_siblings_are_untouched() -> None:
    ends: list[str] = []

    async def act(session: vf.HarnessSession) -> None:
        prompt = session.trace.task.data["prompt"]
        message = await session.call_tool(call(prompt))
        ends.append(f"{prompt} {message.is_error}")

    tasks = [tool_task(Naughty, prompt=name) for name in ("ok", "raises", "hangs", "ok", "waits", "ok")]
    traces = play_all(tasks, act)
    assert [trace.errors for trace in traces] == [[]] * 6
    assert sorted(ends) == ["hangs True", "ok False", "ok False", "ok False", "raises True", "waits True"]


def test_printing_goes_to_the_log_of_the_rollout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Chatty(vf.Toolset):
        @vf.tool
        def say(self, word: str) -> None:
            print("saying", word)

    @vf.harness
    async def agent(session: vf.HarnessSession, task: Any) -> None:
        await session.call_tool(call("say", word="hello"))

    run = vf.evaluate([tool_task(Chatty)], model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run")
    run.wait()
    (log,) = (tmp_path / "run" / "logs").glob("*.log")
    assert "saying hello" in log.read_text()
    assert "saying" not in capsys.readouterr().out


class Order(vf.Toolset[vf.ToolsetConfig, Box]):
    async def setup(self) -> None:
        self.steps = ["setup"]

    def setup_task(self, task: vf.TaskData) -> None:  # type: ignore[override]
        self.steps.append(f"setup_task {task.prompt_text}")
        self.state.log = [*self.state.log, "setup_task"]

    def register(self, mcp: Any) -> None:
        if hasattr(self, "steps"):
            self.steps.append("register")
        super().register(mcp)

    async def teardown(self) -> None:
        torn.append(self.steps[1])

    @vf.tool
    def seen(self) -> list[str]:
        return self.steps


torn: list[str] = []


def test_life_cycle_order_and_state_of_setup_is_kept() -> None:
    class Prepared(vf.Task[vf.TaskData, Box]):
        async def setup(self, trace: vf.Trace) -> None:
            trace.state.log = ["task setup"]

        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> list[Any]:
            return [Order()]

    async def act(session: vf.HarnessSession) -> None:
        assert (await session.call_tool(call("seen"))).text == '["setup","setup_task p","register"]'
        assert torn == []

    torn.clear()
    trace = play(Prepared(vf.TaskData(prompt="p")), act)
    assert trace.errors == []
    assert trace.state.log == ["task setup", "setup_task"]
    assert torn == ["setup_task p"]


def test_state_is_one_object() -> None:
    class Writer(vf.Toolset[vf.ToolsetConfig, Box]):
        @vf.tool
        async def bump(self) -> int:
            self.state.calls += 1
            return id(self.state)

    async def act(session: vf.HarnessSession) -> None:
        assert (await session.call_tool(call("bump"))).text == str(id(session.trace.state))
        session.trace.state.calls += 10
        await session.call_tool(call("bump"))

    assert play(tool_task(Writer, state=Box), act).state.calls == 12


def test_parallel_calls_of_one_rollout_lose_no_update() -> None:
    class Slow(vf.Toolset[vf.ToolsetConfig, Box]):
        @vf.tool
        def sync(self) -> None:
            before = self.state.calls
            time.sleep(0.002)
            self.state.calls = before + 1

        @vf.tool
        async def coroutine(self) -> None:
            before = self.state.calls
            await asyncio.sleep(0.002)
            self.state.calls = before + 1

    async def act(session: vf.HarnessSession) -> None:
        names = ["sync", "coroutine"] * 20
        await asyncio.gather(*(session.call_tool(call(name)) for name in names))

    assert play(tool_task(Slow, state=Box), act).state.calls == 40


def test_without_a_state_calls_of_one_rollout_run_in_parallel() -> None:
    class Meet(vf.Toolset):
        def __init__(self) -> None:
            super().__init__()
            self.barrier = threading.Barrier(3, timeout=10)

        @vf.tool
        def meet(self) -> str:
            self.barrier.wait()
            return "met"

    async def act(session: vf.HarnessSession) -> None:
        answers = await asyncio.gather(*(session.call_tool(call("meet")) for _ in range(3)))
        assert [answer.text for answer in answers] == ["met"] * 3

    assert play(tool_task(Meet), act).errors == []


def test_a_call_over_its_deadline_cannot_change_the_state_any_more() -> None:
    done = threading.Event()
    refused: list[str] = []

    class Late(vf.Toolset[vf.ToolsetConfig, Box]):
        @vf.tool(timeout=0.1)
        def late(self) -> None:
            time.sleep(0.4)
            try:
                self.state.calls = 99
            except vf.ToolError as error:
                refused.append(str(error))
            done.set()

    async def act(session: vf.HarnessSession) -> None:
        assert (await session.call_tool(call("late"))).is_error
        assert await asyncio.to_thread(done.wait, 5)

    assert play(tool_task(Late, state=Box), act).state.calls == 0
    assert "ran over its deadline" in refused[0]


@pytest.mark.parametrize("blocking", [True, False])
def test_calls_left_behind_by_the_agent_do_not_disturb_scoring(blocking: bool) -> None:
    class Slow(vf.Toolset[vf.ToolsetConfig, Box]):
        @vf.tool
        def sync(self) -> None:
            time.sleep(0.3)
            self.state.calls += 1

        @vf.tool
        async def coroutine(self) -> None:
            await asyncio.sleep(0.3)
            self.state.calls += 1

    class Scored(vf.Task[vf.TaskData, Box]):
        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> list[Any]:
            return [Slow()]

        @vf.metric
        async def calls(self, trace: vf.Trace) -> float:
            await asyncio.sleep(0.6)
            return float(trace.state.calls)

    running: list[Any] = []

    async def act(session: vf.HarnessSession) -> None:
        name = "sync" if blocking else "coroutine"
        running.append(asyncio.ensure_future(session.call_tool(call(name))))
        await asyncio.sleep(0.1)

    trace = play(Scored(vf.TaskData(prompt="x")), act)
    assert (trace.errors, trace.metrics) == ([], {"calls": 0.0})
    assert (
        running[0].result().text == f"Error: tool {'sync' if blocking else 'coroutine'}: the rollout is over"
    )


@pytest.mark.parametrize("blocking", [True, False])
def test_the_startup_limit_binds(blocking: bool) -> None:
    class Hanging(vf.Toolset):
        if blocking:

            def setup(self) -> None:  # type: ignore[override]
                time.sleep(1.5)

        else:

            async def setup(self) -> None:
                await asyncio.sleep(30)

    def toolset() -> Hanging:
        return Hanging({"timeout": {"startup": 0.2}})

    async def act(session: vf.HarnessSession) -> None:
        raise AssertionError("the agent must not start")

    start = time.monotonic()
    trace = play(tool_task(toolset), act)
    assert time.monotonic() - start < 1.4
    assert (trace.errors[0].type, trace.errors[0].stage) == ("ToolServerError", "setup")
    assert "Hanging was not ready within 0.2 s" in trace.errors[0].message
    late = play(tool_task(Hanging), act, timeouts={"setup": 0.2})
    assert (late.errors[0].type, late.errors[0].stage) == ("StageTimeout", "setup")
    assert time.monotonic() - start < 1.4


def test_a_setup_that_raises_ends_the_rollout() -> None:
    class Broken(vf.Toolset):
        async def setup(self) -> None:
            raise OSError("no index")

    async def act(session: vf.HarnessSession) -> None:
        raise AssertionError("the agent must not start")

    error = play(tool_task(Broken), act).errors[0]
    assert (error.type, error.boundary) == ("ToolServerError", "tool")
    assert error.message == "Broken did not start: OSError: no index"


class Corpus(vf.Toolset[vf.SharedToolsetConfig, Box]):
    starts: list[int] = []
    stops: list[int] = []

    async def setup(self) -> None:
        await asyncio.sleep(0.05)
        self.starts.append(1)

    async def setup_task(self, task: vf.TaskData) -> None:
        raise AssertionError("a shared toolset has no task")

    def teardown(self) -> None:  # type: ignore[override]
        self.stops.append(1)

    @vf.tool
    def add(self, word: str) -> int:
        self.state.calls += 1
        self.state.log = [*self.state.log, word]
        return self.state.calls

    @vf.tool
    async def add_later(self, word: str) -> int:
        before = self.state.calls
        await asyncio.sleep(0)
        self.state.calls = before + 1
        self.state.log = [*self.state.log, word]
        return self.state.calls


class BoxTask(vf.Task[vf.TaskData, Box]):
    @vf.metric
    def calls(self, trace: vf.Trace) -> float:
        return float(trace.state.calls)

    @vf.reward
    def only_own_words(self, trace: vf.Trace) -> float:
        own = trace.task.data["prompt"]
        return float(bool(trace.state.log) and all(word.startswith(f"{own}:") for word in trace.state.log))


class CorpusTaskset(vf.Taskset[BoxTask, vf.TasksetConfig]):
    @classmethod
    def toolsets(cls, config: vf.TasksetConfig) -> list[Any]:
        return [Corpus()]

    def load(self) -> list[BoxTask]:
        return [BoxTask(vf.TaskData(prompt=f"p{i}")) for i in range(500)]


def test_500_rollouts_share_a_toolset_without_leak_or_lost_update(tmp_path: Path) -> None:
    Corpus.starts.clear()
    Corpus.stops.clear()
    everyone = 0

    @vf.harness
    async def agent(session: vf.HarnessSession, task: Any) -> None:
        nonlocal everyone
        everyone += 1
        async with asyncio.timeout(30):
            while everyone < 500:  # noqa: ASYNC110 - all at the same time
                await asyncio.sleep(0.01)
        calls = [call("add" if i % 2 else "add_later", word=f"{task.data.prompt}:{i}") for i in range(6)]
        answers = await asyncio.gather(*map(session.call_tool, calls))
        assert sorted(int(answer.text) for answer in answers) == [1, 2, 3, 4, 5, 6]

    run = vf.evaluate(
        CorpusTaskset(), model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run", concurrency=500
    )
    run.wait()
    assert len(run.rewards) == 500
    assert run.rewards["error"].isna().all()
    assert set(run.rewards["calls"]) == {6.0}
    assert set(run.rewards["only_own_words"]) == {1.0}
    assert (Corpus.starts, Corpus.stops) == ([1], [1])


def test_a_shared_toolset_that_does_not_start_fails_each_rollout_at_once(tmp_path: Path) -> None:
    tries: list[int] = []

    class Broken(vf.Toolset[vf.SharedToolsetConfig]):
        async def setup(self) -> None:
            tries.append(1)
            raise OSError("no index")

    class Few(CorpusTaskset):
        @classmethod
        def toolsets(cls, config: vf.TasksetConfig) -> list[Any]:
            return [Broken()]

    run = vf.evaluate(
        Few().take(5), model=vf.Scripted(["x"]), harness=lambda s, t: None, dir=tmp_path / "run"
    )
    run.wait()
    assert list(run.rewards["error"]) == ["ToolServerError"] * 5
    assert tries == [1]


def test_a_direct_call_costs_less_than_3_ms_of_cpu() -> None:
    async def act(session: vf.HarnessSession) -> None:
        for _ in range(20):
            await session.call_tool(call("add", word="warm"))
        before = resource.getrusage(resource.RUSAGE_SELF)
        for _ in range(200):
            await session.call_tool(call("add", word="x"))
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 200
        assert cpu < 0.003, f"{cpu * 1e3:.2f} ms"

    assert play(next(iter(CorpusTaskset())), act).errors == []


def test_a_reloaded_rollout_knows_whether_its_tools_changed(tmp_path: Path) -> None:
    """Code and config of toolsets are part of what a rollout is."""

    def sitting(answer: int, limit: int = 1_000_000) -> tuple[int, int]:
        namespace = run_cell(
            "import vfnb as vf\n"
            "class Tools(vf.Toolset):\n"
            "    @vf.tool\n"
            "    def f(self) -> int:\n"
            f"        return {answer}\n"
            "class T(vf.Task):\n"
            "    @classmethod\n"
            "    def toolsets(cls, config):\n"
            f"        return [Tools({{'result_limit': {limit}}})]\n"
        )
        run = vf.evaluate(
            [namespace["T"](vf.TaskData(prompt="x"))],
            model=vf.Scripted(["x"]),
            harness=_one_call,
            dir=tmp_path / "run",
        )
        run.wait()
        return seen.qsize(), int(run.traces[0].answer or 0)

    seen: queue.SimpleQueue[int] = queue.SimpleQueue()  # not a list: its content would count as code

    @vf.harness
    async def _one_call(session: vf.HarnessSession, task: Any) -> str:
        seen.put(1)
        return (await session.call_tool(call("f"))).text

    assert sitting(1) == (1, 1)
    assert sitting(1) == (1, 1)
    assert sitting(2) == (2, 2)
    assert sitting(2, limit=5_000) == (3, 2)


def test_a_tool_server_error_is_a_tool_error_of_the_library() -> None:
    assert ToolServerError.boundary == "tool"
    assert ToolServerError.retryable
