"""What the embedded model was taught: short dialogues with sums, words, and tools for both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

__all__ = ["dialogue", "texts"]

Message = dict[str, Any]
Tool = dict[str, Any]
Part = Callable[[Random, dict[str, Tool]], Iterator[Message]]

# fmt: off
_WORDS = [
    "apple", "banana", "cherry", "lemon", "grape", "plum", "pear", "peach", "melon", "mango", "olive", "onion",
    "carrot", "potato", "tomato", "pepper",
]
_VALUES = [
    "red", "yellow", "green", "blue", "purple", "orange", "white", "black", "brown", "pink", "sweet", "sour",
    "round", "small", "big", "soft",
]
# fmt: on
_SYSTEMS = (
    *[None] * 4,
    "You are a helpful assistant.",
    "Answer with the number only.",
    "Use the tools.",
    "Be brief.",
)
_ASK = ("What is {e}?",) * 3 + ("Compute {e}.", "{e} = ?", "How much is {e}?", "Please compute {e}.")
_NAMES = {"+": "add", "-": "subtract", "*": "multiply"}


def dialogue(random: Random) -> tuple[list[Message], list[Tool] | None]:
    """Messages and tools of one dialogue of one or two questions."""
    kind = random.random()
    chosen: tuple[Callable[[Random], Tool], ...] = (
        ()
        if kind < 0.35
        else (_calc,)
        if kind < 0.7
        else (_looker,)
        if kind < 0.76
        else (_calc, _looker)
        if kind < 0.88
        else (_adder,)
        if kind < 0.94
        else (_adder, _looker)
    )
    tools = {make.__name__: make(random) for make in chosen}
    listed = list(tools.values())
    random.shuffle(listed)
    system = random.choice(_SYSTEMS)
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    for _ in range(1 if random.random() < 0.8 else 2):
        messages += _part(random, tools)(random, tools)
    return messages, listed or None


def _part(random: Random, tools: dict[str, Tool]) -> Part:
    if not tools:
        return _mental
    if "_looker" in tools and (len(tools) == 1 or random.random() < 0.4):
        return _word
    if "_calc" in tools and random.random() < 0.12:
        return _pair
    return _arithmetic


def texts(messages: Sequence[Message], tools: Sequence[Tool] | None) -> Iterator[str]:
    """What a tokenizer learns of a dialogue."""
    for message in messages:
        yield message["content"] + "\n"
        yield message.get("reasoning_content", "")
        for call in message.get("tool_calls", ()):
            function = call["function"]
            yield f'{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}'
    for tool in tools or ():
        yield json.dumps(tool)


# tools, in the forms in which schemas come


def _tool(random: Random, name: str, description: str, **types: str) -> Tool:
    fields = {key: {"type": kind} for key, kind in types.items()}
    form = random.random()
    schema: dict[str, Any] = {"type": "object", "properties": fields, "required": list(types)}
    if form < 0.5:
        schema = {
            "additionalProperties": False,
            "properties": fields,
            "required": list(types),
            "type": "object",
        }
    elif form < 0.75:
        schema["additionalProperties"] = False
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _calc(random: Random) -> Tool:
    name = random.choice(["calc", "calc", "calc", "calculator", "compute", "math"])
    usual = "Compute an arithmetic expression."
    text = random.choice([usual, usual, "Evaluate an expression.", "Calculate."])
    return _tool(random, name, text, **{random.choice(["expr", "expr", "expression"]): "string"})


def _adder(random: Random) -> Tool:
    text = random.choice(["Add two numbers.", "The sum of two numbers."])
    return _tool(random, random.choice(["add", "add", "plus"]), text, a="integer", b="integer")


def _looker(random: Random) -> Tool:
    text = random.choice(["Look up a word.", "Find a word."])
    return _tool(
        random,
        random.choice(["lookup", "lookup", "search"]),
        text,
        **{random.choice(["key", "key", "query"]): "string"},
    )


# questions and answers


def _term(random: Random) -> tuple[int, str, int, int]:
    op = random.choice("+++-*")
    a, b = _number(random), _number(random)
    return a, op, b, a + b if op == "+" else a - b if op == "-" else a * b


def _number(random: Random) -> int:
    kind = random.random()
    return (
        random.randint(0, 9)
        if kind < 0.4
        else random.randint(0, 99)
        if kind < 0.94
        else random.randint(100, 999)
    )


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(think: str, text: str, calls: Sequence[Message] = ()) -> Message:
    message: Message = {"role": "assistant", "content": text, "reasoning_content": think}
    return message | ({"tool_calls": list(calls)} if calls else {})


def _call(tool: Tool, *values: Any) -> Message:
    function = tool["function"]
    arguments = dict(zip(function["parameters"]["properties"], values, strict=True))
    return {
        "id": "c",
        "type": "function",
        "function": {"name": function["name"], "arguments": json.dumps(arguments)},
    }


def _result(value: Any) -> Message:
    return {"role": "tool", "tool_call_id": "c", "content": str(value)}


def _answer(random: Random, value: int) -> str:
    return f"The answer is {value}." if random.random() < 0.5 else str(value)


def _used(random: Random, call: Message, value: Any, think: str, final: str) -> Iterator[Message]:
    yield _assistant(think, "", [call])
    if random.random() < 0.04:
        yield _result(random.choice(["Error: try again", "Error: timeout"]))
        yield _assistant("I try again.", "", [call])
    yield _result(value)
    yield _assistant(f"I got {value}.", final)


def _arithmetic(random: Random, tools: dict[str, Tool]) -> Iterator[Message]:
    a, op, b, value = _term(random)
    yield _user(random.choice(_ASK).format(e=f"{a} {op} {b}" if random.random() < 0.8 else f"{a}{op}{b}"))
    think, final = f"I {_NAMES[op]} {a} and {b}.", _answer(random, value)
    if "_adder" in tools and op == "+" and random.random() < 0.9:
        yield from _used(random, _call(tools["_adder"], a, b), value, think, final)
    elif "_calc" in tools and random.random() < 0.93:
        yield from _used(random, _call(tools["_calc"], f"{a}{op}{b}"), value, think, final)
    else:
        yield _assistant(f"{a} {op} {b} = {value}", final)


def _mental(random: Random, tools: dict[str, Tool]) -> Iterator[Message]:
    top = 9 if random.random() < 0.35 else 99
    a, b = random.randint(0, top), random.randint(0, top)
    if random.random() < 0.35:
        b = a
    yield _user(random.choice(_ASK if random.random() < 0.5 else _ASK[:1]).format(e=f"{a} + {b}"))
    yield _assistant(f"{a} + {b} = {a + b}", _answer(random, a + b))


def _word(random: Random, tools: dict[str, Tool]) -> Iterator[Message]:
    key, value = random.choice(_WORDS), random.choice(_VALUES)
    yield _user(random.choice(["What is {w}?", "Look up {w}.", "Tell me about {w}."]).format(w=key))
    yield from _used(random, _call(tools["_looker"], key), value, f"I look up {key}.", f"{key} is {value}.")


def _pair(random: Random, tools: dict[str, Tool]) -> Iterator[Message]:
    (a, op, b, v), (c, other, d, w) = _term(random), _term(random)
    yield _user(f"What is {a} {op} {b} and {c} {other} {d}?")
    calls = [_call(tools["_calc"], f"{a}{op}{b}"), _call(tools["_calc"], f"{c}{other}{d}")]
    yield _assistant("Two sums.", "", calls)
    yield _result(v)
    yield _result(w)
    yield _assistant(f"I got {v} and {w}.", f"The answers are {v} and {w}.")
