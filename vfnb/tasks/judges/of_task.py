"""`TaskJudge`: a judge that takes question, reference and reply from task and trace by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from vfnb.errors import ConfigError, ScoringError
from vfnb.tasks.judges.base import Judge, JudgeScore
from vfnb.tasks.judges.config import TaskJudgeConfig
from vfnb.tasks.judges.texts import placeholders
from vfnb.tasks.judges.views import question_of, reference_of, seen
from vfnb.utils.config import nearest

if TYPE_CHECKING:
    from vfnb.tasks.data import TaskData
    from vfnb.trace import Trace

__all__ = ["TaskJudge"]

ParsedT = TypeVar("ParsedT", default=float)
TaskJudgeT = TypeVar("TaskJudgeT", bound=TaskJudgeConfig, default=TaskJudgeConfig)

_EMPTY = {
    "last_reply": "the last reply is empty",
    "transcript": "the agent said nothing",
    "full_trace": "the agent said nothing",
}


class TaskJudge(Judge[ParsedT, TaskJudgeT]):
    """A judge for `TaskConfig.judges`. Its prompt may take `{question}`, `{answer}` and `{response}`.

    A subclass needs a config class with an `id` of its own, a `prompt`, and a `parse` that gives a number or a
    bool; or it changes `fields` and `value`.
    """

    def fields(self, task: TaskData, trace: Trace) -> dict[str, Any]:
        """The fields of the prompt."""
        config = self.config
        return {
            "question": question_of(task, config.question_field),
            "answer": reference_of(task, config.answer_field),
            "response": seen(trace, config.view),
        }

    def field_names(self) -> list[str]:
        """The names of those fields."""
        return ["question", "answer", "response"]

    def value(self, parsed: ParsedT) -> float | JudgeScore:
        """The reward of a verdict."""
        if isinstance(parsed, int | float):
            return float(parsed)
        raise ScoringError(
            f"{self.label}: parse gave {parsed!r}, which is no number; return one, or define value(parsed)"
        )

    async def score(self, task: TaskData, trace: Trace) -> float | JudgeScore:
        """The reward of a finished rollout; nothing to judge is no reward, and never a zero."""
        if not seen(trace, self.config.view):
            return JudgeScore(None, unscored=_EMPTY[self.config.view])
        result = await self.evaluate(trace=trace, **self.fields(task, trace))
        return self.value(result.parsed)

    def check(self) -> None:
        """As `Judge.check`; the prompt takes only fields that there are."""
        super().check()
        known = self.field_names()
        if type(self).build_messages is Judge.build_messages:
            for name in sorted(placeholders(self.template, self.label) - set(known)):
                match = nearest(name, known)
                hint = f"did you mean {{{match}}}?" if match else f"it may take {', '.join(known)}"
                raise ConfigError(
                    f"{self.label}: its prompt takes {{{name}}}; {hint} (write {{{{ and }}}} for braces)"
                )
