"""An errand for real agent programs: write a file, use a tool of the task; and what a program did with it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from vfnb_harnesses.agent_program import AgentProgram

import vfnb as vf
from support.engines import need
from support.scripts import asks, call
from support.toolbox import PIXEL, Desk, DeskState
from vfnb.errors import InstallError
from vfnb.installs import ensure

__all__ = [
    "PICTURE",
    "ErrandTask",
    "NoteTask",
    "Strewn",
    "do",
    "errand",
    "errand_model",
    "note",
    "offered",
    "pictured",
    "pictures",
    "ready",
    "side_by_side",
    "skill",
    "then",
]

WANTED = "hello\n"
PICTURE = f"data:image/png;base64,{PIXEL}"


class ErrandTask(vf.Task[vf.TaskData, DeskState]):
    """Write `hello` into `out.txt`, and add 1 and 2 with the desk."""

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [Desk()]

    @vf.reward
    async def wrote(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        try:
            return float((await runtime.read("out.txt")).decode() == WANTED)
        except FileNotFoundError:
            return 0.0

    @vf.metric
    def added(self, trace: vf.Trace) -> float:
        return float(trace.state.sums)


def errand(**data: Any) -> ErrandTask:
    """The task, with other fields of its data."""
    prompt = 'Write "hello" into out.txt,\nthen add 1 and 2.'
    return ErrandTask(vf.TaskData(**{"idx": 0, "prompt": prompt, **data}))


class Strewn(ErrandTask):
    """The errand in a folder with files, and files above it, that some programs take for their own settings."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        above = (await runtime.run(["sh", "-c", "cd .. && pwd"])).stdout.strip()
        text = json.dumps({"instructions": ["AGENTS.md"], "agent": {"build": {"prompt": "LEAK"}}}).encode()
        for folder in (above, "."):
            await runtime.write(f"{folder}/AGENTS.md", b"LEAK\n")
            await runtime.write(f"{folder}/opencode.json", text)


def pictured() -> ErrandTask:
    """The errand as a question about a picture."""
    image = vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url=PICTURE))
    return errand(prompt=[vf.UserMessage(content=[vf.TextContentPart(text="What is it?"), image])])


def pictures(message: Any) -> list[str]:
    """Addresses of the images in a message."""
    parts = message.content if isinstance(message.content, list) else []
    return [part.image_url.url for part in parts if isinstance(part, vf.ImageUrlContentPart)]


class NoteTask(ErrandTask):
    """The same without the desk, for programs that take no tools."""

    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return []


def note(**data: Any) -> NoteTask:
    """The task, with other fields of its data."""
    return NoteTask(vf.TaskData(**{"idx": 0, "prompt": 'Write "hello" into out.txt.', **data}))


def ready(harness: AgentProgram[Any]) -> None:
    """Have the program on this machine; skips the test (fails it on CI) where it cannot be had."""
    try:
        asyncio.run(ensure(harness.recipe()))
    except InstallError as error:
        need(False, f"{harness.name} ({error})", f"vfnb harness install {harness.name}")


def do(
    harness: Any, model: vf.Scripted, task: vf.Task[Any, Any, Any] | None = None, **agent: Any
) -> vf.Trace:
    """One rollout of the errand, whatever its end."""
    ready(harness)
    made = vf.make_agent(harness, model=model, runtime="subprocess", **agent)
    return asyncio.run(made.run(task or errand()))


def side_by_side(
    *rollouts: tuple[AgentProgram[Any], vf.Scripted, vf.Task[Any, Any, Any]],
) -> list[vf.Trace]:
    """Rollouts of several programs at the same time."""
    for harness in {type(harness): harness for harness, _, _ in rollouts}.values():
        ready(harness)

    async def run() -> list[vf.Trace]:
        agents = [
            (vf.make_agent(harness, model=model, runtime="subprocess"), task)
            for harness, model, task in rollouts
        ]
        return await asyncio.gather(*(agent.run(task) for agent, task in agents))

    return asyncio.run(run())


def then(harness: type[AgentProgram[Any]], config: Any, *words: str) -> Any:
    """A harness of that class which goes on with further messages of the user."""

    class Goes(harness):  # type: ignore[misc,valid-type]
        async def run(self, session: Any, task: Any) -> Any:
            ended = await super().run(session, task)
            for word in words:
                ended = await self.resume(session, task, [vf.UserMessage(content=word)])
            return ended

    return Goes(config)


def errand_model(harness: AgentProgram[Any], shell: str, **more: Any) -> vf.Scripted:
    """Says `I write.` with odd white space, writes by the program's shell tool, adds by the task's; two answers."""
    write = json.dumps({"command": "echo hello > out.txt", **more})[:-1] + "  }"
    return vf.Scripted(
        [
            asks(call(shell, write), text="  I write.\n"),
            asks(call(harness.wire_name("desk", "add"), a=1, b=2)),
            "Both done.",
            "Bye.",
        ]
    )


def offered(trace: vf.Trace, position: int = 0) -> list[str]:
    """Names of the tools that a call offered."""
    listed = trace.calls[position].tools
    return [] if listed is None else [tool["name"] for tool in json.loads(trace.dag.tools[listed])]


def skill(folder: Any) -> str:
    """A skill `greeting` in a folder; its path."""
    (folder / "greeting").mkdir()
    text = "---\nname: greeting\ndescription: How to greet somebody by name.\n---\n\nSay hello first.\n"
    (folder / "greeting" / "SKILL.md").write_text(text)
    return str(folder / "greeting")
