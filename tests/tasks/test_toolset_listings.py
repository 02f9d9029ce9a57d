"""The toolsets of the documentation, defined in a cell and in a module."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.cells import module_file, run_cell
from support.tools import call

import vfnb as vf

SEARCH = """
import vfnb as vf

DATABASE = None


class SearchToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = "search"

    @vf.tool
    async def query(self, text: str) -> list[str]:
        \"\"\"Search the task corpus.\"\"\"
        return DATABASE.search(text)


class SearchConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class SearchTaskset(vf.Taskset[vf.Task, SearchConfig]):
    @classmethod
    def toolsets(cls, config: SearchConfig) -> list[vf.Toolset]:
        return [SearchToolset(config.tools)]
"""

SEARCH_LOAD = """
class Corpus:
    def search(self, text):
        return [line for line in ("red fox", "blue fox", "owl") if text in line]

DATABASE = Corpus()

def load(self):
    return [vf.Task(vf.TaskData(prompt="find the foxes")), vf.Task(vf.TaskData(prompt="find the owl"))]

SearchTaskset.load = load
"""

COUNTER = """
import vfnb as vf


class CounterState(vf.State):
    calls: int = 0


class CounterToolset(vf.Toolset[vf.ToolsetConfig, CounterState]):
    @vf.tool
    def count(self) -> int:
        \"\"\"Count this tool call and return the total.\"\"\"
        self.state.calls += 1
        return self.state.calls


class CounterTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class CounterTask(vf.Task[vf.TaskData, CounterState, CounterTaskConfig]):
    @classmethod
    def toolsets(cls, config: CounterTaskConfig) -> list[vf.Toolset]:
        return [CounterToolset(config.tools)]

    @vf.metric
    async def tool_calls(self, trace: vf.Trace) -> float:
        return float(trace.state.calls)
"""


@pytest.fixture(params=["cell", "module"])
def define(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Run source text as a cell or as a module; its names."""
    count = 0

    def run(*sources: str) -> dict[str, Any]:
        nonlocal count
        count += 1
        if request.param == "module":
            name = f"listing_{tmp_path.name}_{count}".replace("-", "_")
            return vars(module_file("\n".join(sources), tmp_path / f"{name}.py"))
        namespace = run_cell(sources[0])
        for source in sources[1:]:
            run_cell(source, namespace)
        return namespace

    return run


def test_search_toolset_is_shared_by_the_rollouts(define: Any, tmp_path: Path) -> None:
    names = define(SEARCH, SEARCH_LOAD)
    seen: list[tuple[str, str]] = []

    @vf.harness
    async def agent(session: vf.HarnessSession, task: vf.Task[Any, Any, Any]) -> str:
        assert [tool.name for tool in session.tools] == ["search_query"]
        assert session.tools[0].description == "Search the task corpus."
        assert session.tools[0].parameters == {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        }
        word = task.data.prompt_text.split()[-1].removesuffix("es")
        answer = await session.call_tool(call("search_query", text=word))
        seen.append((word, answer.text))
        return answer.text

    run = vf.evaluate(names["SearchTaskset"](), model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run")
    run.wait()
    assert [trace.errors for trace in run.traces] == [[], []]
    assert sorted(seen) == [("fox", '["red fox","blue fox"]'), ("owl", '["owl"]')]


def test_counter_toolset_shares_its_state_with_scoring(define: Any, tmp_path: Path) -> None:
    names = define(COUNTER)
    tasks = [names["CounterTask"](vf.TaskData(prompt=f"count to {n}")) for n in (1, 3)]

    @vf.harness
    async def agent(session: vf.HarnessSession, task: vf.Task[Any, Any, Any]) -> None:
        for n in range(int(task.data.prompt_text[-1])):
            answer = await session.call_tool(call("count"))
            assert answer.text == str(n + 1)

    run = vf.evaluate(tasks, model=vf.Scripted(["x"]), harness=agent, dir=tmp_path / "run", rollouts=2)
    run.wait()
    assert [trace.errors for trace in run.traces] == [[]] * 4
    assert sorted(run.rewards["tool_calls"]) == [1.0, 1.0, 3.0, 3.0]


def test_counter_toolset_over_http(define: Any) -> None:
    from mcp import Client
    from support.tools import play

    names = define(COUNTER)

    async def act(session: vf.HarnessSession) -> None:
        (url,) = session.mcp_servers.values()
        assert list(session.mcp_servers) == ["counter"]
        async with Client(url) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["count"]
            assert (await client.call_tool("count")).content[0].text == "1"
        assert (await session.call_tool(call("count"))).text == "2"

    trace = play(names["CounterTask"](vf.TaskData(prompt="x")), act)
    assert trace.errors == []
    assert trace.metrics == {"tool_calls": 2.0}


def test_the_page_about_tools_runs(tmp_path: Path) -> None:
    """Its toolset and its harness, with a model that calls the tool twice."""
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    listings = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = run_cell(listings[0])
    run_cell(next(text for text in listings if "@vf.harness" in text), names)
    clock = next(text for text in listings if "McpServer" in text)
    run_cell(clock, names)
    assert names["ClockTask"].toolsets(vf.TaskConfig())[0].label == "clock"

    def model(messages: list[Any], tools: Any = None) -> Any:
        assert [tool.name for tool in tools] == ["count"]
        results = [message.text for message in messages if message.role == "tool"]
        if len(results) < 2:
            ask = vf.ToolCall(id=f"c{len(results)}", name="count", arguments='{"step": 2}')
            return vf.AssistantMessage(tool_calls=[ask])
        return f"counted {results}"

    run = vf.evaluate(
        [names["CounterTask"](vf.TaskData(prompt="count"))],
        model=vf.Scripted(model),
        harness=names["loop"],
        dir=tmp_path / "run",
    )
    run.wait()
    (trace,) = run.traces
    assert trace.errors == []
    assert trace.last_reply == "counted ['2', '4']"
    assert trace.metrics == {"tool_calls": 4.0}
    assert [message.role for message in trace.messages] == [
        *("user", "assistant", "tool", "assistant", "tool", "assistant")
    ]
