"""Tasks, tasksets, their hooks and their scoring."""

from vfnb.tasks.calling import call_hook, parameters_of
from vfnb.tasks.data import NetworkPolicy, TaskData, TaskResources, TaskTimeout
from vfnb.tasks.hashing import rollout_code, score_code
from vfnb.tasks.hooks import Hook, HookSpec, metric, reward
from vfnb.tasks.loading import load_taskset, taskset_class, tasksets
from vfnb.tasks.prompts import resolve_text_prompt
from vfnb.tasks.scoring import Score, Scores, plain_hook, run_finalize, run_setup, run_validate, score
from vfnb.tasks.state import State
from vfnb.tasks.task import Task, TaskConfig
from vfnb.tasks.taskset import Taskset, TasksetConfig
from vfnb.tasks.tools import (
    McpServer,
    RolloutTools,
    SharedToolsetConfig,
    ToolService,
    Toolset,
    ToolsetConfig,
    ToolsetTimeout,
    check_tools,
    tool,
    tools_identity,
)
from vfnb.tasks.views import FilterConfig, SelectConfig

__all__ = [
    "FilterConfig",
    "Hook",
    "HookSpec",
    "McpServer",
    "NetworkPolicy",
    "RolloutTools",
    "Score",
    "Scores",
    "SelectConfig",
    "SharedToolsetConfig",
    "State",
    "Task",
    "TaskConfig",
    "TaskData",
    "TaskResources",
    "TaskTimeout",
    "Taskset",
    "TasksetConfig",
    "ToolService",
    "Toolset",
    "ToolsetConfig",
    "ToolsetTimeout",
    "call_hook",
    "check_tools",
    "load_taskset",
    "metric",
    "parameters_of",
    "plain_hook",
    "resolve_text_prompt",
    "reward",
    "rollout_code",
    "run_finalize",
    "run_setup",
    "run_validate",
    "score",
    "score_code",
    "taskset_class",
    "tasksets",
    "tool",
    "tools_identity",
]
