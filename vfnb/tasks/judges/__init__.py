"""Judges: models that are asked for a verdict."""

from vfnb.tasks.judges.base import Judge, JudgeResponse, JudgeScore
from vfnb.tasks.judges.choice import parse_judge_choice
from vfnb.tasks.judges.config import JudgeConfig, JudgeView, TaskJudgeConfig
from vfnb.tasks.judges.criteria import Criterion
from vfnb.tasks.judges.decision import DecisionJudge, DecisionJudgeConfig
from vfnb.tasks.judges.listing import Judges, make_judges
from vfnb.tasks.judges.of_task import TaskJudge
from vfnb.tasks.judges.places import close_idle
from vfnb.tasks.judges.reference import ReferenceJudge, ReferenceJudgeConfig
from vfnb.tasks.judges.registry import judge_class, judges
from vfnb.tasks.judges.rubric import RubricJudge, RubricJudgeConfig

__all__ = [
    "Criterion",
    "DecisionJudge",
    "DecisionJudgeConfig",
    "Judge",
    "JudgeConfig",
    "JudgeResponse",
    "JudgeScore",
    "JudgeView",
    "Judges",
    "ReferenceJudge",
    "ReferenceJudgeConfig",
    "RubricJudge",
    "RubricJudgeConfig",
    "TaskJudge",
    "TaskJudgeConfig",
    "close_idle",
    "judge_class",
    "judges",
    "make_judges",
    "parse_judge_choice",
]
