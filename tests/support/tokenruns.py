"""Traces with tokens, and runs of them on disk, without a model: texts become their UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from support.bigrun import begin
from support.graphs import Recorder, assistant, system, user
from vfnb.store import RunStore
from vfnb.trace import ErrorInfo, Reward, TaskInfo, TokenTurn, Trace
from vfnb.types import AssistantMessage, Message

__all__ = ["PROMPT", "Talk", "fork", "linear", "save"]

PROMPT: list[Message] = [system("Be brief."), user("What is 2 + 2?")]


def ids_of(message: Message) -> list[int]:
    """One token per byte of the message's JSON, between two marks."""
    return [1, *(3 + byte for byte in message.model_dump_json().encode()), 2]


class Talk(Recorder):
    """A rollout whose calls carry tokens: `say(history, reply)`."""

    def __init__(
        self,
        id: str,
        *,
        group: str | None = "g",
        agent: str = "agent",
        episode: str | None = None,
        reward: float | None = 1.0,
        data: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        trace = Trace(
            id=id,
            task=TaskInfo(key="sum", name="Sum", data={"prompt": "What is 2 + 2?"} if data is None else data),
            episode_id=episode or f"e-{id}",
            group_id=group,
            agent=agent,
        )
        trace._dag = self.graph
        self.trace = trace
        trace.ok, trace.end_state = True, "completed"
        if reward is not None:
            trace.rewards = {"correct": Reward(value=reward)}

    def say(
        self, history: Sequence[Message], reply: AssistantMessage, *, tokens: bool = True, **fields: Any
    ) -> list[Message]:
        """One call; returns the history after it."""
        fields.setdefault("sampling_sent", {"temperature": 1.0})
        fields.setdefault("finish_reason", "stop")
        turn = self._turn(history, reply) if tokens else None
        self.call(list(history), reply, tokens=turn, **fields)
        return [*history, reply]

    def _turn(self, history: Sequence[Message], reply: AssistantMessage) -> TokenTurn:
        spans, prompt = [], []
        for message in history:
            ids = ids_of(message)
            if message.role == "assistant":
                ids = [7, *ids]
            spans.append((len(prompt), len(prompt) + len(ids)))
            prompt += ids
        completion = ids_of(reply)
        rng = np.random.default_rng(len(prompt))
        logprobs = -rng.exponential(0.5, len(completion)).astype(np.float32)
        return TokenTurn([*prompt, 7], completion, logprobs, spans=spans)

    def failed(self) -> Talk:
        """The same, ended in an error."""
        self.trace.ok, self.trace.end_state, self.trace.rewards = False, "error", {}
        self.trace.errors = [ErrorInfo(type="ToolServerError", message="gone")]
        return self


def linear(id: str, turns: int = 2, **fields: Any) -> Talk:
    """A conversation without forks; its texts differ from id to id."""
    talk = Talk(id, **fields)
    history = list(PROMPT)
    for turn in range(turns):
        history = talk.say(history, assistant(f"It is {turn} of {id}."))
        history.append(user("Are you sure?"))
    return talk


def fork(id: str, **fields: Any) -> Talk:
    """Two branches that share a sampled reply."""
    talk = Talk(id, **fields)
    shared = talk.say(PROMPT, assistant("4"))
    talk.say([*shared, user("Why?")], assistant("Because."))
    talk.say([*shared, user("How?")], assistant("By counting on fingers."))
    return talk


async def save(folder: Path, talks: Sequence[Talk], *, finished: bool = True) -> Path:
    """A run of these rollouts on disk."""
    with RunStore.create_or_open(folder) as store:
        for talk in talks:
            await begin(store, talk.trace)
            for delta in talk.deltas:
                await store.append(talk.trace.id, delta)
            await store.finish_trace(talk.trace)
        if finished:
            await store.set_meta(state="finished")
    return folder
