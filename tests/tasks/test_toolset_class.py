"""Toolsets are checked when they are defined or made, and before anything is paid for."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from support.cells import run_cell
from support.tools import call, play, tool_task

import vfnb as vf
from vfnb.errors import ConfigError, HookError, MissingExtra, TasksetError, ToolServerError
from vfnb.tasks.tools.registry import Registry


class Point(BaseModel):
    x: int
    y: int = 0


class Rich(vf.Toolset):
    @vf.tool
    def draw(
        self,
        points: list[Point],
        mode: Literal["line", "dots"] = "line",
        width: Annotated[int, Field(ge=1, description="in pixels")] = 1,
        *,
        note: str | None = None,
    ) -> str:
        """Draw a figure.

        It has two parts.

        Args:
            points: corners, in order,
                from the left
            mode (str): how to join them

        Returns:
            What was drawn.
        """
        return f"{mode} {width} {[(p.x, p.y) for p in points]} {note}"

    @vf.tool(name="now", description="Tell the time.", timeout=3)
    def current_time(self) -> None:
        """Not shown."""


def test_schema_comes_from_annotations_and_docstring() -> None:
    draw, now = Rich().registry()
    assert draw.tool.description == "Draw a figure.\n\nIt has two parts."
    properties = draw.tool.parameters["properties"]
    assert properties["points"]["description"] == "corners, in order, from the left"
    assert properties["mode"] == {
        "default": "line",
        "enum": ["line", "dots"],
        "type": "string",
        "description": "how to join them",
    }
    assert properties["width"] == {"default": 1, "minimum": 1, "type": "integer", "description": "in pixels"}
    assert draw.tool.parameters["required"] == ["points"]
    assert "self" not in properties
    assert (now.name, now.tool.description, now.timeout) == ("now", "Tell the time.", 3)


def test_arguments_are_checked_and_converted() -> None:
    async def act(session: vf.HarnessSession) -> None:
        good = await session.call_tool(call("draw", points=[{"x": 1}], note="n"))
        assert (good.text, good.is_error) == ("line 1 [(1, 0)] n", False)
        bad = await session.call_tool(call("draw", points=[{"y": 1}], mode="dash", colour="red"))
        assert bad.is_error
        assert "points.0.x: Field required" in bad.text
        assert "mode: Input should be 'line' or 'dots'" in bad.text
        assert "colour: Extra inputs" in bad.text
        for text, problem in (("{", "not valid JSON"), ("[1]", "expected a JSON object, got list")):
            broken = await session.call_tool(vf.ToolCall(id="1", name="draw", arguments=text))
            assert broken.is_error and problem in broken.text
        unknown = await session.call_tool(call("drow"))
        assert unknown.text == "Error: there is no tool 'drow'; did you mean 'draw'?"
        assert (await session.call_tool(call("now"))).text == ""

    assert play(tool_task(Rich), act).errors == []


def test_an_annotation_may_be_text() -> None:
    names = run_cell(
        "from __future__ import annotations\n"
        "import vfnb as vf\n"
        "class Text(vf.Toolset):\n"
        "    @vf.tool\n"
        "    def add(self, a: int, b: int | None = None) -> int:\n"
        "        return a + (b or 0)\n"
    )
    (add,) = names["Text"]().registry()
    assert add.tool.parameters["properties"]["a"] == {"type": "integer"}


def test_tools_can_be_added_replaced_and_dropped() -> None:
    class More(Rich):
        current_time = None  # type: ignore[assignment]

        async def setup(self) -> None:
            self.factor = 3

        def register(self, mcp: Any) -> None:
            super().register(mcp)

            def times(n: int) -> int:
                """Multiply."""
                return n * self.factor

            mcp.add_tool(times)

            @mcp.tool(name="twice")
            def _(n: int) -> int:
                return 2 * n

            mcp.remove_tool("draw")

    async def act(session: vf.HarnessSession) -> None:
        assert [tool.name for tool in session.tools] == ["times", "twice"]
        assert (await session.call_tool(call("times", n=2))).text == "6"
        assert (await session.call_tool(call("twice", n=2))).text == "4"

    assert play(tool_task(More), act).errors == []


def test_register_offers_tools_only() -> None:
    with pytest.raises(HookError, match=r"mcp\.resource is not there.*McpServer"):
        Registry("x").resource("a://b")
    with pytest.raises(HookError, match="has a tool 'f' already"):
        registry = Registry("x")
        registry.add_tool(lambda: 1, name="f")
        registry.add_tool(lambda: 2, name="f")


def test_a_tool_that_cannot_be_called_is_refused() -> None:
    class Star(vf.Toolset):
        @vf.tool
        def f(self, *values: int) -> None: ...

    class NoSchema(vf.Toolset):
        @vf.tool
        def f(self, value: Registry) -> None: ...

    with pytest.raises(HookError, match=r"`\*values` is not possible"):
        Star()
    with pytest.raises(HookError, match="no JSON schema"):
        NoSchema()
    with pytest.raises(HookError, match="tool name 'a b'"):
        vf.tool(name="a b")
    with pytest.raises(HookError, match="must be more than 0"):
        vf.tool(timeout=0)
    with pytest.raises(HookError, match="replaces a tool and is none itself"):

        class Lost(Rich):
            def draw(self) -> None: ...  # type: ignore[override]

    with pytest.raises(TasksetError, match="argument 2 must be a State"):

        class Wrong(vf.Toolset[vf.ToolsetConfig, Point]): ...  # type: ignore[type-var]


def test_a_class_of_a_cell_stays_in_this_process() -> None:
    names = run_cell(
        "import vfnb as vf\n"
        "class Cell(vf.Toolset[vf.ToolsetConfig]):\n"
        "    @vf.tool\n"
        "    def f(self) -> int:\n"
        "        return 1\n"
    )
    names["Cell"](vf.ToolsetConfig())
    with pytest.raises(
        ConfigError, match=r"Cell is defined in a notebook cell.*leave `runtime` out.*Cell\.run\(\)"
    ):
        names["Cell"](vf.ToolsetConfig(runtime="subprocess"))

    class Local(vf.Toolset): ...

    with pytest.raises(ConfigError, match="Local is defined in a function"):
        Local({"runtime": {"type": "subprocess"}})


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"runtime": {"type": "docker"}}, r"tools\.runtime: no tool server can run in 'docker'"),
        ({"runtime": "subproces"}, "did you mean 'subprocess'"),
        ({"colocated": True}, "colocated needs a container runtime"),
        ({"service": "db"}, "service needs a container runtime"),
        ({"url": "localhost:1/mcp"}, "write the whole URL"),
        ({"url": "http://a/mcp", "runtime": "subprocess"}, "runtime and url exclude each other"),
        ({"timeout": {"startup": 0}}, r"tools\.timeout\.startup: input should be greater than 0"),
        ({"timeout": {"start": 1}}, "did you mean startup"),
    ],
)
def test_places_and_limits_are_checked_in_the_config(config: Any, problem: str) -> None:
    class Config(vf.TaskConfig):
        tools: vf.ToolsetConfig = vf.ToolsetConfig()

    with pytest.raises(ConfigError, match=problem):
        Config(tools=config)


def test_defaults_of_the_config() -> None:
    assert vf.ToolsetConfig().timeout.startup == 600.0
    assert vf.SharedToolsetConfig(timeout={"startup": None}).timeout.startup is None
    assert "colocated" not in vf.SharedToolsetConfig.model_fields


def test_a_harness_without_mcp_is_refused_before_any_call(tmp_path: Path) -> None:
    class Plain(vf.Harness):
        async def run(self, session: vf.HarnessSession, task: Any) -> None:
            await session.complete("x")

    model = vf.Scripted(["x"])
    with pytest.raises(
        ConfigError, match=r"'Plain' takes no tools \(SUPPORTS_MCP is False\).*comes with Rich"
    ):
        vf.evaluate([tool_task(Rich)], model=model, harness=Plain(), dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Shared(vf.Taskset[vf.Task, vf.TasksetConfig]):
    @classmethod
    def toolsets(cls, config: vf.TasksetConfig) -> list[Any]:
        return [Rich()]

    def load(self) -> list[vf.Task]:
        return [vf.Task(vf.TaskData(prompt="a"))]


def test_shared_toolsets_are_checked_too_and_go_with_the_tasks(tmp_path: Path) -> None:
    class Plain(vf.Harness):
        async def run(self, session: vf.HarnessSession, task: Any) -> None: ...

    for source in (Shared(), list(Shared().take(1))):
        with pytest.raises(ConfigError, match="takes no tools"):
            vf.evaluate(source, model=vf.Scripted(["x"]), harness=Plain(), dir=tmp_path / "run")


def test_state_of_toolset_and_task_must_fit(tmp_path: Path) -> None:
    class Mine(vf.State):
        n: int = 0

    class Stateful(vf.Toolset[vf.ToolsetConfig, Mine]): ...

    agent = vf.make_agent(lambda session, task: None, model=vf.Scripted(["x"]))
    with pytest.raises(ConfigError, match="Stateful shares Mine with its rollout, but ToolTask has State"):
        agent.check(tool_task(Stateful))
    agent.check(tool_task(Stateful, state=Mine))


def test_what_toolsets_gives_is_checked() -> None:
    class NoList(vf.Task):
        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> Any:
            return Rich()

    class AClass(vf.Task):
        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> Any:
            return [Rich]

    agent = vf.make_agent(lambda session, task: None, model=vf.Scripted(["x"]))
    with pytest.raises(TasksetError, match=r"NoList\.toolsets.*return a list"):
        agent.check(NoList(vf.TaskData(prompt="x")))
    with pytest.raises(TasksetError, match="make an object of it"):
        agent.check(AClass(vf.TaskData(prompt="x")))
    with pytest.raises(HookError, match="must be a class method"):

        class Method(vf.Task):
            def toolsets(self, config: vf.TaskConfig) -> Any:  # type: ignore[override]
                return []


def test_two_tools_of_one_name_are_refused() -> None:
    class Same(Rich): ...

    class Added(vf.Toolset):
        def register(self, mcp: Any) -> None:
            mcp.add_tool(lambda: None, name="draw")

    async def act(session: vf.HarnessSession) -> None: ...

    with pytest.raises(ConfigError, match="Rich and Same both offer a tool 'draw'"):
        play(tool_task(Rich, Same), act)
    trace = play(tool_task(Rich, Added), act)  # known only when it runs
    assert trace.errors[0].type == "ConfigError"
    assert "rich and added both offer a tool 'draw'" in trace.errors[0].message

    class Prefixed(Rich):
        TOOL_PREFIX = "other"

    assert play(tool_task(Rich, Prefixed), act).errors == []


def test_config_of_another_class_is_refused() -> None:
    class Own(vf.ToolsetConfig):
        size: int = 1

    class Sized(vf.Toolset[Own]): ...

    assert Sized().config.size == 1
    assert Sized({"size": 2}).config.size == 2
    with pytest.raises(ConfigError, match="expected Own, got ToolsetConfig"):
        Sized(vf.ToolsetConfig())


def test_state_is_closed_outside_of_rollouts() -> None:
    class Early(vf.Toolset[vf.SharedToolsetConfig]):
        async def setup(self) -> None:
            self.state.x = 1  # type: ignore[attr-defined]

    class Set(Shared):
        @classmethod
        def toolsets(cls, config: vf.TasksetConfig) -> list[Any]:
            return [Early()]

    with pytest.raises(HookError, match="only there during a tool call"):
        _ = Early().state

    async def act(session: vf.HarnessSession) -> None: ...

    (task,) = Set()
    error = play(task, act).errors[0]
    assert "a shared toolset has no rollout in setup()" in error.message


def test_mcp_server_settings() -> None:
    assert vf.McpServer(command=["uvx", "mcp-server-time"]).label == "mcp-server-time"
    assert vf.McpServer(command=[sys.executable, "/a/peer.py", "stdio"]).label == "peer"
    assert vf.McpServer(url="https://example.com/mcp", name="x", prefix="y").label == "x"
    for settings, problem in (
        ({}, "give either command="),
        ({"command": ["x"], "url": "http://a"}, "give either command="),
        ({"url": "a/mcp"}, "write the whole URL"),
        ({"url": "http://a", "env": {"A": "b"}}, "env and cwd belong to a command"),
        ({"command": ["x"], "headers": {"A": "b"}}, "headers belong to a URL"),
        ({"command": ["x"], "tool": ["a"]}, "did you mean tools"),
    ):
        with pytest.raises(ConfigError, match=problem):
            vf.McpServer(**settings)


def test_no_secret_of_a_server_is_shown() -> None:
    server = vf.McpServer(command=["x"], env={"TOKEN": "hunter2"})
    assert "hunter2" not in str(server.identity())


def test_without_the_sdk_direct_calls_work_and_the_rest_says_what_to_install(tmp_path: Path) -> None:
    """In a fresh interpreter that cannot import the SDK."""
    program = tmp_path / "no_sdk.py"
    program.write_text(
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('mcp', 'mcp_types'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from support.tools import call, play, tool_task\n"
        "import vfnb as vf\n"
        "class One(vf.Toolset):\n"
        "    @vf.tool\n"
        "    def one(self) -> int:\n"
        "        return 1\n"
        "async def act(session):\n"
        "    assert (await session.call_tool(call('one'))).text == '1'\n"
        "    session.mcp_servers\n"
        "trace = play(tool_task(One), act)\n"
        "print(trace.errors[0].type, trace.errors[0].message)\n"
    )
    env = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("MissingExtra"), done.stdout
    assert "pip install 'vfnb[mcp]'" in done.stdout


def test_importing_the_room_loads_no_sdk() -> None:
    check = (
        "import sys, vfnb as vf; vf.Toolset, vf.McpServer; "
        "assert not {'mcp', 'uvicorn', 'aiohttp', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
    assert importlib.util.find_spec("mcp") is not None
    assert issubclass(MissingExtra, ImportError) and issubclass(ToolServerError, vf.ToolError)
