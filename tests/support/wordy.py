"""A taskset with three rewards that can be gamed by length, and a model whose answers differ in it."""

from __future__ import annotations

import asyncio
import random

import vfnb as vf

__all__ = ["WordyTask", "WordyTaskset", "speaker"]


class WordyTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float("yes" in trace.last_reply)

    @vf.reward(weight=0.5)
    async def thorough(self, trace: vf.Trace) -> float:
        return len(trace.last_reply) / 100

    @vf.reward(weight=0.2)
    async def polite(self, trace: vf.Trace) -> float:
        return float("please" in trace.last_reply)

    @vf.metric
    async def words(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply.split()))


class WordyTaskset(vf.Taskset[WordyTask, vf.TasksetConfig]):
    def load(self) -> list[WordyTask]:
        return [
            WordyTask(vf.TaskData(prompt=f"Question {i}?", name=f"question {i}"), self.config.task)
            for i in range(8)
        ]


def speaker(seed: int = 0, wait_s: float = 0.0, fail: float = 0.0) -> vf.Scripted:
    """Answers of 1 to 30 words; wrong ones are longer, and a share `fail` of the calls raises."""
    dice = random.Random(seed)

    async def speak(messages: vf.Messages) -> str:
        await asyncio.sleep(wait_s)
        if dice.random() < fail:
            raise ValueError("the model is gone <b>for good</b>")
        right = dice.random() < 0.5
        words = dice.randint(1, 12) if right else dice.randint(8, 30)
        return " ".join(
            [*(["please"] if dice.random() < 0.5 else []), *["so"] * words, "yes" if right else "no"]
        )

    return vf.Scripted(speak)
