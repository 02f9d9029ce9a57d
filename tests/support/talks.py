"""Traces built through the graph's own commit, for tests that read them."""

from __future__ import annotations

import random

from vfnb.trace import ErrorInfo, ModelCall, Reward, Span, TaskInfo, Trace, identity
from vfnb.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage

ANSWER = "There are exactly 42 files in it"
TASK = "count all the files in the folder"


def say(trace: Trace, parent: int, new: list[Message], reply: Message | str | None, **call: object) -> int:
    """Commit one call; returns the node of its reply (of its prompt, if it failed)."""
    given: dict[str, object] = {
        "start": 100.0,
        "end": 101.0,
        "usage": Usage(prompt_tokens=10, completion_tokens=3, cost=0.001),
    }
    made = ModelCall(**{**given, **call})  # type: ignore[arg-type]
    message = AssistantMessage(content=reply) if isinstance(reply, str) else reply
    trace.dag.commit(made, parent=parent, new=[(item, identity(item)) for item in new], reply=message)
    return made.prompt_node if made.reply_node is None else made.reply_node


def chain(turns: int, text: str = "word " * 10) -> Trace:
    """One branch of 1 + 2 * `turns` messages."""
    trace = Trace(id="0" * 32, task=TaskInfo(key="chain", name="a chain"))
    parent, new = -1, [SystemMessage(content="Be brief.")]
    for turn in range(turns):
        parent = say(trace, parent, [*new, UserMessage(content=f"{turn} {text}")], f"reply {turn} {text}")
        new = []
    return trace


def family(hostile: str = "") -> Trace:
    """A finished trace: a main line of three calls, a title call, a subagent and a resampled last reply."""
    trace = Trace(id="f" * 32, task=TaskInfo(idx=3, name="the third", key="files/3"), rollout=1)
    first = say(
        trace,
        -1,
        [SystemMessage(content="You count."), UserMessage(content=f"How many? {hostile}")],
        "Let me see.",
    )
    say(trace, -1, [UserMessage(content=f"Title of this? {hostile}")], "Counting files")
    ask = AssistantMessage(
        reasoning_content="I had better ask.",
        tool_calls=[ToolCall(id="a", name="agent", arguments=f'{{"task": "{TASK}"}}')],
    )
    second = say(trace, first, [UserMessage(content="Go on.")], ask)
    say(trace, -1, [SystemMessage(content="You help."), UserMessage(content=TASK)], ANSWER)
    third = say(trace, second, [ToolMessage(tool_call_id="a", content=ANSWER + hostile)], "42")
    say(trace, trace.dag.nodes[third].parent, [], "forty-two")
    trace.rewards = {"exact": Reward(value=1.0), "short": Reward(value=0.5, weight=0.0)}
    trace.metrics = {"turns": 6.0, "unknown": None}
    trace.timing = {"boot": Span(start=99.0, end=100.0), "agent": Span(start=100.0, end=106.5)}
    trace.info = {"answer": "42" + hostile}
    trace.end_state, trace.ok = "completed", True
    return trace


def bushy(size: int = 2000, text: str = "some words of a message " * 8) -> Trace:
    """`size` messages: a long main line, every tenth reply sampled twice, a side call at each fiftieth."""
    trace = Trace(id="b" * 32, task=TaskInfo(key="bushy", name="a bushy one"))
    parent, new, turn = -1, [SystemMessage(content="Be brief.")], 0
    while len(trace.dag.nodes) < size - 4:
        turn += 1
        reply = say(trace, parent, [*new, UserMessage(content=f"{turn} {text}")], f"reply {turn} {text}")
        if turn % 10 == 0:
            say(trace, trace.dag.nodes[reply].parent, [], f"another reply {turn}")
        if turn % 50 == 0:
            say(trace, -1, [UserMessage(content=f"Title for {turn}?")], f"Title {turn}")
        parent, new = reply, []
    while len(trace.dag.nodes) < size:
        parent = say(trace, parent, [], f"again {len(trace.dag.nodes)}")
    trace.end_state, trace.ok = "completed", True
    return trace


def failed(message: str = "cannot connect to 127.0.0.1:1; start the server") -> Trace:
    """A trace that ended in an error after its prompt."""
    trace = Trace(id="e" * 32, task=TaskInfo(key="files/4", name=None))
    error = ErrorInfo(
        type="UpstreamConnection", boundary="model", message=message, stage="agent", traceback="Traceback: x"
    )
    say(trace, -1, [UserMessage(content="Hello?")], None, error=error, status=502, usage=None)
    trace.errors, trace.end_state, trace.ok = [error], "error", False
    return trace


def forked(calls: int, seed: int) -> Trace:
    """A trace whose calls go on from the last reply, from an earlier one, or start anew."""
    rng = random.Random(seed)
    trace = Trace()
    replies = [-1]
    for call in range(calls):
        way = rng.random()
        parent = replies[-1] if way < 0.7 else rng.choice(replies) if way < 0.95 else -1
        new = [UserMessage(content=f"{call} prompt of {parent}")] * rng.choice((1, 1, 2))
        if parent < 0:
            new = [SystemMessage(content=f"you are {rng.randrange(3)}"), *new]
        elif rng.random() < 0.2:
            new, parent = [], trace.dag.nodes[parent].parent  # the same prompt again
        replies.append(say(trace, parent, new, f"reply {call}"))
    return trace
