"""Toolsets as programs of their own: launched by the run, or running already."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client
from support import counter_module
from support.cells import module_file
from support.counter_module import CounterState, CounterTask, CounterTaskConfig, SharedCounterToolset
from support.tools import call, free_port, http_peer, play, play_all, tool_task

import vfnb as vf
from vfnb.errors import ConfigError, HookError, StateConflict
from vfnb.tasks.tools.binding import changes, merge, snapshot


def hosted(prompt: str = "p", **settings: Any) -> CounterTask:
    tools = vf.ToolsetConfig(runtime={"type": "subprocess"}, **settings)
    return CounterTask(vf.TaskData(prompt=prompt), CounterTaskConfig(tools=tools))


def test_state_goes_to_the_server_and_back() -> None:
    left: dict[str, Any] = {}

    async def act(session: vf.HarnessSession) -> None:
        state = session.trace.state
        assert state.note == "made for p"  # by setup_task, in the other process
        assert (await session.call_tool(call("count"))).text == "1"
        state.calls = 10
        assert (await session.call_tool(call("count"))).text == "11"
        words = await asyncio.gather(*(session.call_tool(call("remember", word=str(i))) for i in range(5)))
        assert not any(word.is_error for word in words)
        assert sorted(state.seen) == list("01234")
        async with Client(session.mcp_servers["counter"]) as client:
            assert (await client.call_tool("count")).content[0].text == "12"
        left["pid"] = int((await session.call_tool(call("process"))).text)
        assert left["pid"] != os.getpid()
        folder = left["folder"] = Path((await session.call_tool(call("where"))).text)
        assert folder.is_dir()  # noqa: ASYNC240
        assert folder != Path.cwd()

    trace = play(hosted(), act)
    assert trace.errors == []
    assert trace.metrics == {"tool_calls": 12.0}
    assert isinstance(trace.state, CounterState)
    assert not psutil.pid_exists(left["pid"])
    assert not left["folder"].exists()


def test_a_server_that_dies_ends_its_own_rollout_only() -> None:
    async def act(session: vf.HarnessSession) -> None:
        if session.trace.task.data["prompt"] == "dies":
            await session.call_tool(call("die"))
        else:
            for _ in range(3):
                await session.call_tool(call("count"))
                await asyncio.sleep(0.2)

    traces = play_all([hosted("dies"), hosted("lives")], act)
    (error,) = traces[0].errors
    assert (error.type, error.boundary, error.stage) == ("ToolServerError", "tool", "agent")
    assert "tool server counter died during die" in error.message
    assert traces[1].errors == []
    assert traces[1].state.calls == 3


def test_a_call_has_its_deadline() -> None:
    async def act(session: vf.HarnessSession) -> None:
        start = time.monotonic()
        answer = await session.call_tool(call("slow", seconds=3.0))
        assert answer.is_error
        assert "did not answer within 0.5 s" in answer.text
        assert time.monotonic() - start < 2

    assert play(hosted(timeout={"call": 0.5}), act).errors == []


def test_a_change_on_both_sides_is_a_conflict() -> None:
    async def act(session: vf.HarnessSession) -> None:
        running = asyncio.ensure_future(session.call_tool(call("slow", seconds=0.6)))
        await asyncio.sleep(0.3)
        session.trace.state.calls = 5
        session.trace.state.note = "an other field is no conflict"
        with pytest.raises(
            StateConflict, match="state field calls: changed by a tool in another process and here"
        ):
            await running
        assert session.trace.state.calls == 5

    trace = play(hosted(), act)
    assert trace.errors[0].type == "StateConflict"


def test_fields_are_merged_one_by_one() -> None:
    state = CounterState(calls=1)
    before = snapshot(state)
    theirs = changes(before, {**before, "calls": 2})
    state.note = "ours"
    merge(state, before, theirs)
    assert (state.calls, state.note) == (2, "ours")
    state.calls = 3
    with pytest.raises(StateConflict):
        merge(state, before, {"calls": 4, "note": "theirs"})
    assert (state.calls, state.note) == (3, "ours")  # all or nothing
    merge(state, before, {"calls": 3})  # the same value on both sides
    with pytest.raises(HookError, match="cannot go to a tool server"):
        snapshot(vf.State(lock=object()))


def test_a_hanging_start_ends_at_its_limit(tmp_path: Path) -> None:
    module = module_file(
        "import time\n"
        "import vfnb as vf\n"
        "class Slow(vf.Toolset[vf.ToolsetConfig]):\n"
        "    def setup(self):\n"
        "        time.sleep(30)\n"
        "if __name__ == '__main__':\n"
        "    Slow.run()\n",
        tmp_path / "slow_tools.py",
    )
    sys.path.insert(0, str(tmp_path))
    try:

        async def act(session: vf.HarnessSession) -> None:
            raise AssertionError("the agent must not start")

        start = time.monotonic()
        settings = {"runtime": "subprocess", "timeout": {"startup": 1.5}}
        trace = play(tool_task(lambda: module.Slow(settings)), act)
        assert "tool server slow was not ready within 1.5 s" in trace.errors[0].message
        assert time.monotonic() - start < 12
        assert not [p for p in psutil.process_iter(["cmdline"]) if "slow_tools" in (p.info["cmdline"] or [])]
    finally:
        sys.path.remove(str(tmp_path))


def test_a_module_that_does_not_run_says_so(tmp_path: Path) -> None:
    module = module_file(
        "import vfnb as vf\nclass Mute(vf.Toolset[vf.ToolsetConfig]): ...\n", tmp_path / "mute_tools.py"
    )
    sys.path.insert(0, str(tmp_path))
    try:

        async def act(session: vf.HarnessSession) -> None: ...

        trace = play(tool_task(lambda: module.Mute({"runtime": "subprocess"})), act)
    finally:
        sys.path.remove(str(tmp_path))
    assert trace.errors[0].type == "ToolServerError"
    assert 'Mute.run() under `if __name__ == "__main__":`' in trace.errors[0].message


class Plain(vf.Task[vf.TaskData, CounterState]):
    @vf.metric
    def calls(self, trace: vf.Trace) -> float:
        return float(trace.state.calls)


def test_a_shared_toolset_in_a_program_of_its_own(tmp_path: Path) -> None:
    class Shared(vf.Taskset[Plain, vf.TasksetConfig]):
        @classmethod
        def toolsets(cls, config: vf.TasksetConfig) -> list[Any]:
            return [SharedCounterToolset({"runtime": "subprocess"})]

        def load(self) -> list[Any]:
            return [Plain(vf.TaskData(prompt=str(i))) for i in range(8)]

    @vf.harness
    async def agent(session: vf.HarnessSession, task: Any) -> None:
        answers = await asyncio.gather(*(session.call_tool(call("count")) for _ in range(5)))
        assert sorted(answer.text for answer in answers) == list("12345")
        pids.add((await session.call_tool(call("process"))).text)

    pids: set[str] = set()
    run = vf.evaluate(Shared(), model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run")
    run.wait()
    assert run.rewards["error"].isna().all()
    assert set(run.rewards["calls"]) == {5.0}
    (pid,) = pids
    assert int(pid) != os.getpid()
    assert not psutil.pid_exists(int(pid))


def test_a_server_that_runs_already() -> None:
    port = free_port()
    program = counter_module.__file__
    with http_peer(program, "--port", str(port), port=port) as url:

        def toolset() -> vf.Toolset[Any, Any]:
            return counter_module.CounterToolset({"url": url})

        async def act(session: vf.HarnessSession) -> None:
            for n in range(3):
                assert (await session.call_tool(call("count"))).text == str(n + 1)

        traces = play_all([tool_task(toolset, state=CounterState, prompt=str(i)) for i in range(3)], act)
        assert [trace.errors for trace in traces] == [[]] * 3
        assert [trace.state.calls for trace in traces] == [3, 3, 3]

    async def nothing(session: vf.HarnessSession) -> None: ...

    trace = play(tool_task(toolset, state=CounterState), nothing)
    assert trace.errors[0].type == "ToolServerError"
    assert url in trace.errors[0].message


def test_a_class_of_a_package_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pack_tools").mkdir()
    (tmp_path / "pack_tools" / "__init__.py").write_text(
        "import vfnb as vf\nclass Pack(vf.Toolset[vf.ToolsetConfig]): ...\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import pack_tools  # type: ignore[import-not-found]

        agent = vf.make_agent(lambda session, task: None, model=vf.Scripted(["x"]))
        with pytest.raises(ConfigError, match="defined in the package pack_tools itself"):
            agent.check(tool_task(lambda: pack_tools.Pack({"runtime": "subprocess"})))
    finally:
        sys.path.remove(str(tmp_path))
