"""Foreign MCP servers as sources of tools: a stdio program and a streamable-HTTP server of the bare SDK."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from mcp import Client
from support.tools import PEER, call, free_port, http_peer, play, play_all, tool_task

import vfnb as vf
from vfnb.errors import ToolServerError
from vfnb.runtimes import warden


def stdio(**settings: Any) -> vf.McpServer:
    return vf.McpServer(command=[sys.executable, str(PEER), "stdio"], **settings)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    with http_peer(str(PEER), "http", str(port), port=port) as address:
        yield address


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_foreign_server_is_a_source_of_tools(transport: str, url: str) -> None:
    settings: dict[str, Any] = {"prefix": "calc", "timeout": {"call": 6.0}}
    server = stdio(**settings) if transport == "stdio" else vf.McpServer(url=url, **settings)

    async def act(session: vf.HarnessSession) -> None:
        assert [tool.name for tool in session.tools] == [
            f"calc_{name}" for name in ("add", "boom", "picture", "sleep", "big", "die")
        ]
        assert session.tools[0].description == "Add two numbers."
        assert session.tools[0].parameters["required"] == ["a", "b"]
        added = await session.call_tool(call("calc_add", a=2, b=3))
        assert (added.text, added.is_error) == ("5", False)
        for name, arguments, text in (
            ("calc_boom", {}, "Error executing tool boom"),
            ("calc_add", {"a": "x", "b": 1}, "validation error"),
            ("calc_sleep", {"seconds": 30}, "did not answer within 6 s"),
            ("calc_big", {"size": 5_000_000}, "has 5,000,000 bytes, the limit is 1,000,000"),
        ):
            answer = await session.call_tool(call(name, **arguments))
            assert answer.is_error, name
            assert text in answer.text, answer.text
        (image,) = (await session.call_tool(call("calc_picture"))).content
        assert isinstance(image, vf.ImageUrlContentPart)
        async with Client(session.mcp_servers["calc"]) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 1})).content[0].text == "2"
            assert (await client.call_tool("picture")).content[0].type == "image"

    assert play(tool_task(server), act).errors == []


def test_tools_are_filtered_by_name() -> None:
    async def act(session: vf.HarnessSession) -> None:
        assert [tool.name for tool in session.tools] == ["sleep", "add"]
        assert (
            await session.call_tool(call("boom"))
        ).text == "Error: there is no tool 'boom'; the tools are add, sleep"
        async with Client(session.mcp_servers["mcp_peer"]) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["sleep", "add"]
            assert (await client.call_tool("boom")).is_error

    assert play(tool_task(stdio(tools=["sleep", "add"])), act).errors == []
    trace = play(tool_task(stdio(tools=["ad"])), act)
    assert trace.errors[0].type == "ConfigError"
    assert trace.errors[0].message == "server mcp_peer has no tool 'ad'; did you mean 'add'?"


def test_a_program_that_dies_ends_the_rollout_with_its_last_words() -> None:
    warden.current().guard()  # started by whatever comes first, it stays as long as this process
    before = {process.pid for process in psutil.Process().children(recursive=True)}

    async def act(session: vf.HarnessSession) -> None:
        with pytest.raises(ToolServerError):
            await session.call_tool(call("die"))
        await session.call_tool(call("add", a=1, b=1))

    trace = play(tool_task(stdio()), act)
    (error,) = trace.errors
    assert error.type == "ToolServerError"
    assert "tool server mcp_peer died during die" in error.message
    assert error.message.endswith("last words")
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


def test_a_program_that_cannot_start_says_why() -> None:
    async def act(session: vf.HarnessSession) -> None: ...

    missing = play(tool_task(vf.McpServer(command=["no-such-program-here"])), act)
    assert missing.errors[0].type == "ToolServerError"
    assert "no-such-program-here" in missing.errors[0].message
    silent = play(
        tool_task(
            vf.McpServer(
                command=[sys.executable, "-c", "import time; time.sleep(60)"], timeout={"startup": 1.5}
            )
        ),
        act,
    )
    assert "was not ready within 1.5 s" in silent.errors[0].message
    crashing = play(
        tool_task(vf.McpServer(command=[sys.executable, "-c", "raise SystemExit('no licence')"])), act
    )
    assert "no licence" in crashing.errors[0].message


def test_secrets_reach_the_program_and_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_SECRET", "hunter2")
    code = (
        "import os\n"
        "from mcp.server.mcpserver import MCPServer\n"
        "s = MCPServer('s')\n"
        "@s.tool()\n"
        "def env() -> list[str]:\n"
        "    return [os.environ.get('TOKEN', ''), os.environ.get('PEER_SECRET', '')]\n"
        "s.run('stdio')\n"
    )
    server = vf.McpServer(command=[sys.executable, "-c", code], env={"TOKEN": "env:PEER_SECRET"}, name="env")

    async def act(session: vf.HarnessSession) -> None:
        assert (await session.call_tool(call("env"))).text.split() == ["hunter2"]

    assert play(tool_task(server), act).errors == []
    assert "hunter2" not in repr(server) + str(server.identity())


class PeerTaskset(vf.Taskset[vf.Task, vf.TasksetConfig]):
    server: Any = None

    @classmethod
    def toolsets(cls, config: vf.TasksetConfig) -> list[Any]:
        return [cls.server]

    def load(self) -> list[vf.Task]:
        return [vf.Task(vf.TaskData(prompt=f"p{i}")) for i in range(6)]


def test_rollouts_that_share_a_server_outlive_its_death(tmp_path: Any) -> None:
    """The call under way fails with its rollout; the server is started again for the others."""

    class Shared(PeerTaskset):
        server = stdio()

    @vf.harness
    async def agent(session: vf.HarnessSession, task: Any) -> str:
        if task.data.prompt == "p0":
            await session.call_tool(call("die"))
        await asyncio.sleep(1.0)
        return (await session.call_tool(call("add", a=1, b=1))).text

    run = vf.evaluate(Shared(), model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run")
    run.wait()
    assert sorted(map(str, run.rewards["error"])) == ["<NA>"] * 5 + ["ToolServerError"]
    assert sorted(trace.answer for trace in run.traces if trace.answer) == ["2"] * 5


def test_a_lost_url_is_a_typed_error() -> None:
    port = free_port()

    async def act(session: vf.HarnessSession) -> None:
        start = time.monotonic()
        with pytest.raises(ToolServerError):
            await session.call_tool(call("die"))
        assert time.monotonic() - start < 10

    with http_peer(str(PEER), "http", str(port), port=port) as address:
        trace = play_all([tool_task(vf.McpServer(url=address))], act)[0]
    assert trace.errors[0].type == "ToolServerError"
    assert "died during die" in trace.errors[0].message
