"""Judged tasks, the published listing of a judge, and runs over them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import vfnb as vf
from vfnb.tasks import score
from vfnb.types import AssistantMessage, Message, UserMessage

__all__ = ["CORRECTNESS", "Data", "Judged", "judged", "run_judged", "scripted", "talk"]

CORRECTNESS = '''
import verifiers.v1 as vf


class CorrectnessJudge(vf.Judge[bool]):
    # The prompt template rendered by build_messages(**fields)
    prompt = """Question: {question}
    Answer: {answer}
    Response: {response}
    Correct? Reply yes or no."""

    # Parse the judge's reply into the typed result
    def parse(self, response: vf.JudgeResponse[bool]) -> bool:
        verdict = vf.parse_judge_choice(response.text, choices=("yes", "no"))
        if verdict is None:
            raise ValueError("Judge returned no yes/no verdict")
        return verdict == "yes"


class JudgedData(vf.TaskData):
    answer: str


class JudgedTaskConfig(vf.TaskConfig):
    # Judge endpoint settings are independent of the evaluated agent's client.
    judge: vf.JudgeConfig = vf.JudgeConfig()


class JudgedTask(vf.Task[JudgedData, vf.State, JudgedTaskConfig]):
    @vf.reward()
    async def correct(self, trace: vf.Trace) -> float:
        # Keeping judge configuration on TaskConfig makes it overridable from CLI/TOML.
        judge = CorrectnessJudge(self.config.judge)
        result = await judge.evaluate(
            trace=trace,
            question=self.data.prompt_text,
            answer=self.data.answer,
            response=trace.last_reply,
        )
        return float(result.parsed)


class SetConfig(vf.TasksetConfig):
    task: JudgedTaskConfig = JudgedTaskConfig()


class JudgeTraceTaskset(vf.Taskset[JudgedTask, SetConfig]):
    def load(self) -> list[JudgedTask]:
        return [
            JudgedTask(
                JudgedData(prompt="What is 2+2?", answer="4"),
                self.config.task,
            )
        ]
'''


class Data(vf.TaskData):
    prompt: Any = "What is 2+2?"
    answer: Any = "4"


class Judged(vf.Task[Data]):
    """A task whose rewards are all its judges'."""


def judged(*judges: Any, trace: vf.Trace | None = None, **data: Any) -> vf.Trace:
    """The trace of an agent that said `4`, scored by judges."""
    trace = vf.Trace(answer="4", end_state="completed") if trace is None else trace
    task = Judged(Data(**data), vf.TaskConfig(judges=list(judges)))
    asyncio.run(score(task, trace))
    return trace


def scripted(*replies: Any) -> vf.Scripted:
    """A judge model that says the same again and again, or a list once."""
    return vf.Scripted(list(replies), cycle=True, name="judge-model")


def talk(*messages: Message, **fields: Any) -> vf.Trace:
    """A finished trace with these messages on its main line; the assistant's are sampled."""
    from vfnb.trace.calls import ModelCall
    from vfnb.trace.identity import identity

    trace = vf.Trace(end_state="completed", **fields)
    parent, new = -1, []
    for message in messages:
        if not isinstance(message, AssistantMessage):
            new.append((message, identity(message)))
            continue
        delta = trace.dag.commit(ModelCall(finish_reason="stop"), parent=parent, new=new, reply=message)
        assert delta is not None
        parent, new = len(trace.dag.nodes) - 1, []
    return trace


def run_judged(
    folder: Path, judges: list[Any], *, tasks: int = 3, rollouts: int = 1, **settings: Any
) -> vf.Run:
    """A finished run of an agent that says `4`, scored by judges."""

    class Few(vf.Taskset[Judged, vf.TasksetConfig]):
        def load(self) -> list[Judged]:
            return [Judged(Data(prompt=f"What is {i}+2?"), self.config.task) for i in range(tasks)]

    taskset = Few(task=vf.TaskConfig(judges=judges))
    model = settings.pop("model", None) or vf.Scripted(lambda messages: "4")
    return vf.evaluate(taskset, model=model, rollouts=rollouts, dir=folder, **settings).wait(quiet=True)


def user(text: str) -> UserMessage:
    """A user's message."""
    return UserMessage(content=text)
