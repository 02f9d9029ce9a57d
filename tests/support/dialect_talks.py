"""Programs of each dialect on the official clients: questions, tool calls and their results, four model calls."""

from __future__ import annotations

from typing import Any

import vfnb as vf

__all__ = ["QUESTIONS", "TALKS", "TURNS"]

QUESTIONS = ("What is 3 + 4?", "What is 12 + 30?", "What is 7 + 7?", "What is 25 + 41?")
TURNS = 4
_SYSTEM = "You are brief."
_SCHEMA = {"type": "object", "properties": {"expr": {"type": "string"}}, "required": ["expr"]}
_ABOUT = "Compute an arithmetic expression."


def _result(expr: str) -> str:
    return f"{expr} it is"


async def chat(session: vf.HarnessSession, task: vf.Task[Any]) -> None:
    tool = {"type": "function", "function": {"name": "calc", "description": _ABOUT, "parameters": _SCHEMA}}
    talk: list[Any] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": QUESTIONS[0]}]
    async with session.openai() as client:
        for turn in range(TURNS):
            made = await client.chat.completions.create(
                model=session.model, messages=talk, tools=[tool], max_tokens=80
            )
            said = made.choices[0].message
            talk.append(said.model_dump(exclude_none=True))
            calls = said.tool_calls or ()
            talk += [
                {"role": "tool", "tool_call_id": call.id, "content": _result(call.function.arguments)}
                for call in calls
            ]
            if not calls:
                talk.append({"role": "user", "content": QUESTIONS[(turn + 1) % 4]})


async def responses(session: vf.HarnessSession, task: vf.Task[Any]) -> None:
    tool = {"type": "function", "name": "calc", "description": _ABOUT, "parameters": _SCHEMA, "strict": False}
    items: list[Any] = [{"role": "user", "content": QUESTIONS[0]}]
    async with session.openai() as client:
        for turn in range(TURNS):
            made = await client.responses.create(
                model=session.model,
                instructions=_SYSTEM,
                input=items,
                tools=[tool],
                max_output_tokens=80,
            )
            items += [item.model_dump(exclude_none=True) for item in made.output]
            calls = [item for item in made.output if item.type == "function_call"]
            for call in calls:
                output = _result(call.arguments)
                items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
            if not calls:
                items.append({"role": "user", "content": QUESTIONS[(turn + 1) % 4]})


async def messages(session: vf.HarnessSession, task: vf.Task[Any]) -> None:
    tool = {"name": "calc", "description": _ABOUT, "input_schema": _SCHEMA}
    talk: list[Any] = [{"role": "user", "content": QUESTIONS[0]}]
    async with session.anthropic() as client:
        for turn in range(TURNS):
            made = await client.messages.create(
                model=session.model, system=_SYSTEM, messages=talk, tools=[tool], max_tokens=80
            )
            talk.append(
                {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in made.content]}
            )
            uses = [block for block in made.content if block.type == "tool_use"]
            results: list[Any] = [
                {"type": "tool_result", "tool_use_id": use.id, "content": _result(_written(use.input))}
                for use in uses
            ]
            talk.append({"role": "user", "content": results or QUESTIONS[(turn + 1) % 4]})


def _written(value: Any) -> str:
    import json

    return json.dumps(value)


TALKS = {"chat": chat, "responses": responses, "messages": messages}
