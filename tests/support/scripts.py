"""Scripted models for tool loops, and a task with a file as its answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import vfnb as vf

__all__ = ["FixTask", "asks", "call", "fix_task", "results", "turns"]

_numbers = itertools.count()


def call(name: str, arguments: dict[str, Any] | str | None = None, /, **values: Any) -> vf.ToolCall:
    """A tool call; `arguments` as a string is sent as it is."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or values)
    return vf.ToolCall(id=f"call_{next(_numbers)}", name=name, arguments=text)


def asks(*calls: vf.ToolCall, text: str | None = None, prompt_tokens: int | None = None) -> vf.Response:
    """A reply that calls tools."""
    usage = None if prompt_tokens is None else vf.Usage(prompt_tokens=prompt_tokens, completion_tokens=5)
    message = vf.AssistantMessage(content=text, tool_calls=list(calls))
    return vf.Response(message=message, finish_reason="tool_calls", usage=usage)


def results(messages: vf.Messages) -> list[str]:
    """The texts of the tool messages at the end of a history."""
    found = itertools.takewhile(lambda message: message.role == "tool", reversed(messages))
    return [message.text for message in found][::-1]


def turns(*answers: Any) -> tuple[vf.Scripted, list[vf.Messages]]:
    """A model with fixed answers (a function gets the messages), and the histories that it was asked with."""
    asked: list[vf.Messages] = []
    left = list(answers)

    def script(messages: vf.Messages) -> Any:
        asked.append(messages)
        answer: Any = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        make: Callable[[vf.Messages], Any] | None = answer if callable(answer) else None
        return make(messages) if make is not None else answer

    return vf.Scripted(script), asked


class FixTask(vf.Task[vf.TaskData]):
    """Repair `calc.py` so that `add(2, 3)` is 5."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        await runtime.write("calc.py", b"def add(a, b):\n    return a - b\n")

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        trace.info["calc"] = (await runtime.read("calc.py")).decode()

    @vf.reward
    async def works(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        done = await runtime.run(["python3", "-c", "import calc; print(calc.add(2, 3))"])
        return float(done.stdout.strip() == "5")


def fix_task(**data: Any) -> FixTask:
    """The task, with other fields of its data."""
    return FixTask(vf.TaskData(**{"idx": 0, "prompt": "add() in calc.py is wrong. Repair it.", **data}))
