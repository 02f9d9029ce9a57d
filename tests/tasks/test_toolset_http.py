"""Toolsets as programs see them: streamable HTTP on loopback, a path per rollout."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import httpx
import pytest
from mcp import Client
from support.tools import call, play, play_all, tool_task

import vfnb as vf
from vfnb.errors import ToolServerError


class Words(vf.State):
    words: list[str] = []


class Pad(vf.Toolset[vf.SharedToolsetConfig, Words]):
    TOOL_PREFIX = "pad"

    @vf.tool
    async def write(self, word: str) -> list[str]:
        """Write a word down."""
        before = self.state.words
        await asyncio.sleep(0.001)
        self.state.words = [*before, word]
        return self.state.words

    @vf.tool
    def raises(self) -> None:
        raise ValueError("no luck")

    @vf.tool(timeout=0.2)
    def hangs(self) -> None:
        time.sleep(1)

    @vf.tool
    def big(self) -> str:
        return "x" * 5_000_000

    @vf.tool
    def picture(self) -> Any:
        from PIL import Image

        return Image.new("RGB", (1, 1))

    @vf.tool
    def broken(self) -> None:
        raise ToolServerError("the index is gone")


class WordTask(vf.Task[vf.TaskData, Words]): ...


class PadTaskset(vf.Taskset[WordTask, vf.TasksetConfig]):
    @classmethod
    def toolsets(cls, config: vf.TasksetConfig) -> list[Any]:
        return [Pad()]

    def load(self) -> list[WordTask]:
        return [WordTask(vf.TaskData(prompt=f"p{i}")) for i in range(40)]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_program_lists_and_calls_the_tools(mode: str) -> None:
    async def act(session: vf.HarnessSession) -> None:
        assert [tool.name for tool in session.tools][:1] == ["pad_write"]
        assert list(session.mcp_servers) == ["pad"]
        async with Client(session.mcp_servers["pad"], mode=mode) as client:
            tools = (await client.list_tools()).tools
            assert tools[0].name == "write"
            assert tools[0].description == "Write a word down."
            assert tools[0].input_schema == session.tools[0].parameters
            written = await client.call_tool("write", {"word": "a"})
            assert (written.content[0].text, written.is_error) == ('["a"]', False)
            for name, arguments, text in (
                ("write", {"wrod": "a"}, "Error: arguments of write: word: Field required"),
                ("raises", {}, "Error: tool raises raised ValueError: no luck"),
                ("hangs", {}, "Error: tool hangs did not answer within 0.2 s"),
                ("big", {}, "Error: the result of big has 5,000,000 bytes"),
                ("none", {}, "Error: there is no tool 'none'"),
            ):
                answer = await client.call_tool(name, arguments)
                assert answer.is_error
                assert answer.content[0].text.startswith(text)
            (image,) = (await client.call_tool("picture")).content
            assert (image.type, image.mime_type) == ("image", "image/png")
        assert (await session.call_tool(call("pad_write", word="b"))).text == '["a","b"]'

    trace = play(next(iter(PadTaskset())), act)
    assert trace.errors == []
    assert trace.state.words == ["a", "b"]


def test_rollouts_share_the_server_and_not_the_state() -> None:
    roots = set()

    async def act(session: vf.HarnessSession) -> None:
        url = session.mcp_servers["pad"]
        roots.add(url.partition("/")[0])
        own = session.trace.task.data["prompt"]
        async with Client(url) as client:
            await asyncio.gather(*(client.call_tool("write", {"word": f"{own}:{i}"}) for i in range(4)))
        assert len(session.trace.state.words) == 4
        assert all(word.startswith(f"{own}:") for word in session.trace.state.words)

    traces = play_all(list(PadTaskset().take(12)), act)
    assert [trace.errors for trace in traces] == [[]] * 12


def test_a_run_has_one_server_and_closes_it(tmp_path: Any) -> None:
    urls: list[str] = []

    @vf.harness
    async def agent(session: vf.HarnessSession, task: Any) -> None:
        url = session.mcp_servers["pad"]
        urls.append(url)
        async with Client(url) as client:
            await client.call_tool("write", {"word": "x"})

    run = vf.evaluate(PadTaskset(), model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run")
    run.wait()
    assert run.rewards["error"].isna().all()
    assert len({url.split("/")[2] for url in urls}) == 1
    assert len(set(urls)) == 40
    with pytest.raises(httpx.ConnectError):
        httpx.post(urls[0])


def test_a_key_opens_its_rollout_only_and_only_while_it_runs(tmp_path: Any) -> None:
    urls: dict[str, str] = {}
    ended, asked = threading.Event(), threading.Event()

    async def act(session: vf.HarnessSession) -> None:
        own = session.trace.task.data["prompt"]
        url = urls[own] = session.mcp_servers["pad"]
        async with httpx.AsyncClient() as http:
            assert (await http.get(url)).status_code == 405
            for wrong in (
                url.replace("/pad/", "/other/"),
                url + "/x",
                "/".join(url.split("/")[:3]) + "/pad/mcp",
            ):
                assert (await http.post(wrong, json={})).status_code == 404
            if own == "p0":
                ended.set()
                return
            assert await asyncio.to_thread(ended.wait, 10)
            async with asyncio.timeout(10):
                while (await http.post(urls["p0"], json={})).status_code != 404:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            asked.set()

    # One agent, so one service: both rollouts are served by the same port.
    @vf.harness
    async def agent(session: vf.HarnessSession, task: Any) -> None:
        await act(session)

    run = vf.evaluate(
        list(PadTaskset().take(2)), model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run"
    )
    run.wait()
    assert run.rewards["error"].isna().all(), run.rewards["error"]
    assert asked.is_set()


def test_a_lost_server_ends_the_rollout_of_a_program_with_a_typed_error() -> None:
    async def act(session: vf.HarnessSession) -> None:
        async with Client(session.mcp_servers["pad"]) as client:
            answer = await client.call_tool("broken")
            assert answer.is_error
            assert "the index is gone" in answer.content[0].text
        await asyncio.sleep(30)  # the program does not notice; the rollout does

    start = time.monotonic()
    trace = play(next(iter(PadTaskset())), act)
    assert trace.errors[0].type == "ToolServerError"
    assert trace.end_state == "error"
    assert time.monotonic() - start < 15


def test_own_and_shared_toolsets_stand_side_by_side() -> None:
    class Own(vf.Toolset[vf.ToolsetConfig]):
        @vf.tool
        def whoami(self) -> str:
            return self.name_of_task

        async def setup_task(self, task: vf.TaskData) -> None:
            self.name_of_task = task.prompt_text

    class Both(PadTaskset):
        def load(self) -> list[Any]:
            return [tool_task(Own, state=Words, prompt=f"t{i}") for i in range(3)]

    async def act(session: vf.HarnessSession) -> None:
        own = session.trace.task.data["prompt"]
        assert [tool.name for tool in session.tools][-1] == "whoami"
        assert list(session.mcp_servers) == ["pad", "own"]
        assert (await session.call_tool(call("whoami"))).text == own
        async with Client(session.mcp_servers["own"]) as client:
            assert (await client.call_tool("whoami")).content[0].text == own

    assert [trace.errors for trace in play_all(list(Both()), act)] == [[]] * 3
