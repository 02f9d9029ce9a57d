"""Judged QA: a model decides whether a free answer is right.

What to learn here: two ways to a judge. The ready one is a setting, `judges`, with a judge `reference` that
compares the reply with `answer`; files and the command line can change its model or add another one. The own
one is a class, `ToneJudge`, with a prompt and a `parse`, called from a reward whose weight is 0: it is recorded
and not trained on. A judge that fails or babbles is an error of the rollout, never a zero.

    run = vf.evaluate("judged_qa", model="my-model")  # the judge asks OPENAI_BASE_URL

Without an endpoint, for tests, give the judges models of their own:

    yes = vf.Scripted(lambda messages: "yes")
    task = {"judges": [vf.ReferenceJudgeConfig(name="correct", client=yes)], "tone": vf.JudgeConfig(client=yes)}
    run = vf.evaluate(JudgedQATaskset(task=task), model=...)
"""

from __future__ import annotations

from collections.abc import Iterator

import vfnb as vf

__all__ = ["JudgedQATaskset"]

QUESTIONS = [
    (
        "Why is the sky blue?",
        ["air scatters short (blue) light more than long (red) light", "Rayleigh scattering"],
    ),
    ("Why does ice float on water?", ["ice is less dense than liquid water"]),
    ("What makes the tides?", ["the gravity of the Moon and the Sun"]),
    ("Why do we see lightning before we hear thunder?", ["light is faster than sound"]),
    ("What does a vaccine do?", ["it trains the immune system without the disease"]),
    ("Why are there seasons?", ["the Earth's axis is tilted", "the tilt of the Earth's axis"]),
]


class QAData(vf.TaskData):
    """A question and its reference answers; agreeing with one of them is enough."""

    answer: list[str]


class ToneJudge(vf.Judge[float]):
    """Would a child understand it?"""

    prompt = """Would a ten-year-old understand this answer?

Question: {question}
Answer: {response}

Reply with one word: yes, partly or no."""

    def parse(self, response: vf.JudgeResponse[float]) -> float:
        """The verdict as a number; raising is right where there is none."""
        verdict = vf.parse_judge_choice(response.text, choices=("yes", "partly", "no"))
        if verdict is None:
            raise ValueError("none of yes, partly, no")
        return {"yes": 1.0, "partly": 0.5, "no": 0.0}[verdict]


class QATaskConfig(vf.TaskConfig):
    """Settings of the scoring."""

    judges: vf.Judges = [vf.ReferenceJudgeConfig(name="correct")]
    """Judges that run after the rewards; this one compares with `answer`."""
    tone: vf.JudgeConfig = vf.JudgeConfig()
    """Whom the task's own judge asks."""


class QATask(vf.Task[QAData, vf.State, QATaskConfig]):
    """Right if the judge says so."""

    @vf.reward(weight=0.0)
    async def simple(self, trace: vf.Trace) -> float:
        """What the own judge says."""
        judge = ToneJudge(self.config.tone)
        verdict = await judge.evaluate(trace=trace, question=self.data.prompt_text, response=trace.last_reply)
        return verdict.parsed


class QAConfig(vf.TasksetConfig):
    """Settings of the loading."""

    task: QATaskConfig = QATaskConfig()
    """Settings of the scoring."""


class JudgedQATaskset(vf.Taskset[QATask, QAConfig]):
    """Questions about everyday physics."""

    system_prompt = "Answer in one or two plain sentences."

    def load(self) -> Iterator[QATask]:
        """One task a question."""
        for question, answers in QUESTIONS:
            yield QATask(QAData(prompt=question, answer=answers), self.config.task)
