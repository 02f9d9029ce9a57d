"""Synthetic runs of any size, written through the store as a rollout would."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vfnb.store import EpisodeRow, RunStore, TaskRow, TraceRow
from vfnb.trace.calls import ModelCall
from vfnb.trace.identity import identity
from vfnb.trace.records import Delta
from vfnb.trace.tokens import TokenTurn
from vfnb.trace.trace import Reward, Span, TaskInfo, Trace
from vfnb.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage

__all__ = ["begin", "chat_turns", "token_trace", "trace_of", "write_run"]


class Source:
    """Real text that does not repeat: the standard library's source, as tokens."""

    _words: list[str] = []

    def __init__(self, seed: int = 0) -> None:
        if not Source._words:
            import re

            folder = Path(random.__file__).parent
            text = "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.py"))[:140])
            Source._words = re.findall(r" ?[A-Za-z_]+| ?\d{1,3}| ?[^\sA-Za-z_\d]+|\s+", text)
        self.random = random.Random(seed)
        self.at = (seed * 7919) % len(Source._words)

    def take(self, count: int) -> str:
        """The next `count` tokens as text."""
        words = Source._words
        out: list[str] = []
        while len(out) < count:
            piece = words[self.at : self.at + count - len(out)]
            out += piece
            self.at = (self.at + len(piece)) % len(words)
        return "".join(out)

    def ids(self, text: str) -> np.ndarray[Any, Any]:
        """Token ids of a text: equal pieces have equal ids."""
        import re
        import zlib

        pieces = re.findall(r" ?[A-Za-z_]+| ?\d{1,3}| ?[^\sA-Za-z_\d]+|\s+", text)
        return np.array([zlib.crc32(piece.encode()) % 151_643 for piece in pieces], np.int32)


def token_trace(
    turns: int, seed: int = 0, *, tokens: bool = True, **fields: Any
) -> tuple[Trace, list[Delta]]:
    """An agent conversation with about 1 k tokens per turn (512 sampled), and the deltas that made it."""
    source = Source(seed)
    trace = Trace(**fields)
    graph = trace.dag
    fresh: list[Message] = [SystemMessage(content=source.take(256)), UserMessage(content=source.take(256))]
    deltas = []
    parent = -1
    length = 0
    now = 1_700_000_000.0
    for turn in range(turns):
        text, arguments = source.take(384), source.take(128)
        call_id = f"call_{source.random.getrandbits(64):016x}"
        reply = AssistantMessage(
            content=text, tool_calls=[ToolCall(id=call_id, name="bash", arguments=arguments)]
        )
        turn_tokens = None
        if tokens:
            parts, spans, at = [], [], length
            for message in fresh:
                ids = np.concatenate([[1, 1, 1], source.ids(message.text), [2, 2]]).astype(np.int32)
                spans.append((at, at + len(ids)))
                at += len(ids)
                parts.append(ids)
            prompt = np.concatenate([*parts, [1, 77091, 198]]).astype(np.int32)
            completion = np.concatenate([source.ids(text), source.ids(arguments), [2]]).astype(np.int32)
            logprobs = -np.array([source.random.expovariate(2.0) for _ in completion], np.float32)
            turn_tokens = TokenTurn(prompt, completion, logprobs, spans=spans, start=length)
            length += len(prompt) + len(completion)
        call = ModelCall(
            id=f"chatcmpl-{turn}",
            dialect="chat",
            model="synthetic",
            start=now,
            first_token=now + 0.1,
            end=now + 1.5,
            usage=Usage(prompt_tokens=1000, completion_tokens=513),
            finish_reason="tool_calls",
            digest=f"{source.random.getrandbits(128):032x}",
        )
        now += 2.0
        delta = graph.commit(
            call, parent=parent, new=[(one, identity(one)) for one in fresh], reply=reply, tokens=turn_tokens
        )
        deltas.append(delta)
        parent = call.reply_node if call.reply_node is not None else parent
        fresh = [ToolMessage(tool_call_id=call_id, content=source.take(512))]
    return trace, deltas


def chat_turns(
    trace: Trace, messages: int, seed: int = 0, prompt: str = "You are a careful solver."
) -> Iterator[Delta]:
    """Grow a plain conversation of `messages` messages, two per call."""
    graph = trace.dag
    parent = -1
    rng = random.Random(seed)
    for turn in range(messages // 2):
        fresh: list[Message] = [UserMessage(content=f"Question {turn} of {seed}: what is {rng.random()}?")]
        if turn == 0:
            fresh.insert(0, SystemMessage(content=prompt))
        call = ModelCall(
            id=f"c{turn}",
            dialect="chat",
            model="synthetic",
            start=time.time(),
            end=time.time() + 0.5,
            usage=Usage(prompt_tokens=50 + 20 * turn, completion_tokens=12),
            finish_reason="stop",
        )
        reply = AssistantMessage(content=f"The answer to question {turn} is {rng.random()}, I am sure of it.")
        yield graph.commit(call, parent=parent, new=[(one, identity(one)) for one in fresh], reply=reply)
        parent = call.reply_node if call.reply_node is not None else parent


def trace_of(index: int, *, rollouts: int = 1) -> Trace:
    """An empty trace of unit `index`."""
    task, rollout = divmod(index, rollouts)
    return Trace(
        id=f"t{index:06d}",
        task=TaskInfo(idx=task, key=f"task-{task}", name=f"Task {task}", data={"prompt": f"Solve {task}"}),
        episode_id=f"e{index:06d}",
        group_id=f"g{task}",
        rollout=rollout,
    )


def begin(store: RunStore, trace: Trace, *, rollout_hash: str = "r", score_hash: str = "s") -> Any:
    """Make a trace known to the store, with its task and episode."""
    digest = trace.task.key.encode().ljust(16, b"\0")[:16]
    store.put_tasks([TaskRow(digest=digest, idx=trace.task.idx, key=trace.task.key, name=trace.task.name)])
    store.begin_episode(
        EpisodeRow(id=trace.episode_id or "", group=trace.group_id or "", started=time.time())
    )
    return store.begin_trace(
        TraceRow(
            id=trace.id,
            episode=trace.episode_id or "",
            group=trace.group_id or "",
            role=trace.agent,
            task=digest,
            task_idx=trace.task.idx,
            task_key=trace.task.key,
            task_name=trace.task.name,
            rollout=trace.rollout,
            rollout_hash=rollout_hash,
            score_hash=score_hash,
        )
    )


def end(trace: Trace, seed: int) -> None:
    """Give a trace its scores and its end."""
    rng = random.Random(seed)
    trace.rewards = {
        "correct": Reward(value=float(rng.random() < 0.5)),
        "short": Reward(value=rng.random(), weight=0.1),
    }
    trace.metrics = {"length": float(rng.randrange(100))}
    now = time.time()
    trace.timing = {"agent": Span(start=now - 1, end=now), "scoring": Span(start=now, end=now + 0.01)}
    trace.ok = True
    trace.end_state = "completed"


async def write_run(
    folder: Path,
    traces: int,
    messages: int = 20,
    *,
    rollouts: int = 4,
    prompt: str = "You are a careful solver.",
) -> None:
    """A finished run of plain conversations."""
    with RunStore.create_or_open(folder) as store:
        for index in range(traces):
            trace = trace_of(index, rollouts=rollouts)
            writes = [begin(store, trace)]
            writes += [store.append(trace.id, delta) for delta in chat_turns(trace, messages, index, prompt)]
            for write in writes:
                await write
            end(trace, index)
            await store.finish_trace(trace)
        await store.set_meta(state="finished")


async def write_token_run(folder: Path, traces: int, turns: int = 200) -> None:
    """A finished run of long token traces."""
    with RunStore.create_or_open(folder) as store:
        for index in range(traces):
            trace, deltas = token_trace(turns, index, id=f"t{index:06d}", episode_id=f"e{index}")
            await begin(store, trace)
            for delta in deltas:
                await store.append(trace.id, delta)
            end(trace, index)
            await store.finish_trace(trace)
        await store.set_meta(state="finished")


if __name__ == "__main__":
    import asyncio

    kind, where, count = sys.argv[1:4]
    asyncio.run({"chat": write_run, "tokens": write_token_run}[kind](Path(where), int(count)))
