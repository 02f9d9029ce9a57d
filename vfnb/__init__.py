"""A Jupyter-native research SDK for agentic RL and evaluation: `import vfnb as vf`.

Public names load on first use, so that the import itself is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vfnb_harnesses.program import ProgramHarness as Program

    from vfnb import errors as errors
    from vfnb import runs as runs
    from vfnb.agents import Agent as Agent
    from vfnb.agents import Harness as Harness
    from vfnb.agents import HarnessConfig as HarnessConfig
    from vfnb.agents import HarnessSession as HarnessSession
    from vfnb.agents import ScoringConfig as ScoringConfig
    from vfnb.agents import Timeouts as Timeouts
    from vfnb.agents import harness as harness
    from vfnb.agents import harnesses as harnesses
    from vfnb.agents import make_agent as make_agent
    from vfnb.clients import VLLM as VLLM
    from vfnb.clients import Embedded as Embedded
    from vfnb.clients import EvalClient as EvalClient
    from vfnb.clients import ModelClient as ModelClient
    from vfnb.clients import Price as Price
    from vfnb.clients import Relay as Relay
    from vfnb.clients import Replay as Replay
    from vfnb.clients import Scripted as Scripted
    from vfnb.clients import TokenEngine as TokenEngine
    from vfnb.clients import TrainClient as TrainClient
    from vfnb.dialects import Dialect as Dialect
    from vfnb.errors import ToolError as ToolError
    from vfnb.interception import Completion as Completion
    from vfnb.interception import Limits as Limits
    from vfnb.interception import SessionStopped as SessionStopped
    from vfnb.lab import Summary as Summary
    from vfnb.lab import print_prompt_completions_sample as print_prompt_completions_sample
    from vfnb.lab import schema as schema
    from vfnb.lab.learning_figure import plot_learning as plot_learning
    from vfnb.lab.theme import theme as theme
    from vfnb.runs import Comparison as Comparison
    from vfnb.runs import EvalConfig as EvalConfig
    from vfnb.runs import Run as Run
    from vfnb.runs import Study as Study
    from vfnb.runs import Validation as Validation
    from vfnb.runs import compare as compare
    from vfnb.runs import diff as diff
    from vfnb.runs import evaluate as evaluate
    from vfnb.runs import frame as frame
    from vfnb.runs import load as load
    from vfnb.runs import study as study
    from vfnb.runs import validate as validate
    from vfnb.runtimes import ProgramResult as ProgramResult
    from vfnb.runtimes import Runtime as Runtime
    from vfnb.runtimes import RuntimeConfig as RuntimeConfig
    from vfnb.tasks import Criterion as Criterion
    from vfnb.tasks import DecisionJudge as DecisionJudge
    from vfnb.tasks import DecisionJudgeConfig as DecisionJudgeConfig
    from vfnb.tasks import Judge as Judge
    from vfnb.tasks import JudgeConfig as JudgeConfig
    from vfnb.tasks import JudgeResponse as JudgeResponse
    from vfnb.tasks import Judges as Judges
    from vfnb.tasks import JudgeScore as JudgeScore
    from vfnb.tasks import McpServer as McpServer
    from vfnb.tasks import ReferenceJudge as ReferenceJudge
    from vfnb.tasks import ReferenceJudgeConfig as ReferenceJudgeConfig
    from vfnb.tasks import RubricJudge as RubricJudge
    from vfnb.tasks import RubricJudgeConfig as RubricJudgeConfig
    from vfnb.tasks import SelectConfig as SelectConfig
    from vfnb.tasks import SharedToolsetConfig as SharedToolsetConfig
    from vfnb.tasks import State as State
    from vfnb.tasks import Task as Task
    from vfnb.tasks import TaskConfig as TaskConfig
    from vfnb.tasks import TaskData as TaskData
    from vfnb.tasks import TaskJudge as TaskJudge
    from vfnb.tasks import TaskJudgeConfig as TaskJudgeConfig
    from vfnb.tasks import Taskset as Taskset
    from vfnb.tasks import TasksetConfig as TasksetConfig
    from vfnb.tasks import Toolset as Toolset
    from vfnb.tasks import ToolsetConfig as ToolsetConfig
    from vfnb.tasks import ToolsetTimeout as ToolsetTimeout
    from vfnb.tasks import intercept as intercept
    from vfnb.tasks import load_taskset as load_taskset
    from vfnb.tasks import metric as metric
    from vfnb.tasks import parse_judge_choice as parse_judge_choice
    from vfnb.tasks import resolve_text_prompt as resolve_text_prompt
    from vfnb.tasks import reward as reward
    from vfnb.tasks import stop as stop
    from vfnb.tasks import tool as tool
    from vfnb.trace import Branch as Branch
    from vfnb.trace import ErrorInfo as ErrorInfo
    from vfnb.trace import Fork as Fork
    from vfnb.trace import JudgeCall as JudgeCall
    from vfnb.trace import ModelCall as ModelCall
    from vfnb.trace import Sample as Sample
    from vfnb.trace import Trace as Trace
    from vfnb.types import AssistantMessage as AssistantMessage
    from vfnb.types import AudioContentPart as AudioContentPart
    from vfnb.types import AudioSource as AudioSource
    from vfnb.types import ContentPart as ContentPart
    from vfnb.types import FileContentPart as FileContentPart
    from vfnb.types import FileSource as FileSource
    from vfnb.types import HostedResult as HostedResult
    from vfnb.types import ImageUrlContentPart as ImageUrlContentPart
    from vfnb.types import ImageUrlSource as ImageUrlSource
    from vfnb.types import Message as Message
    from vfnb.types import Messages as Messages
    from vfnb.types import OpaqueContentPart as OpaqueContentPart
    from vfnb.types import OtherMessage as OtherMessage
    from vfnb.types import ReasoningContentPart as ReasoningContentPart
    from vfnb.types import RefusalContentPart as RefusalContentPart
    from vfnb.types import Request as Request
    from vfnb.types import Response as Response
    from vfnb.types import SamplingConfig as SamplingConfig
    from vfnb.types import SystemMessage as SystemMessage
    from vfnb.types import TextContentPart as TextContentPart
    from vfnb.types import Tool as Tool
    from vfnb.types import ToolCall as ToolCall
    from vfnb.types import ToolMessage as ToolMessage
    from vfnb.types import Usage as Usage
    from vfnb.types import UserMessage as UserMessage
    from vfnb.utils.answers import extract_boxed_answer as extract_boxed_answer
    from vfnb.utils.answers import extract_number as extract_number
    from vfnb.utils.answers import read_answer_file_or_last_reply as read_answer_file_or_last_reply
    from vfnb.utils.answers import verify_numeric_answer as verify_numeric_answer
    from vfnb.utils.git import capture_patch as capture_patch
    from vfnb.utils.git import resolve_head as resolve_head
    from vfnb.utils.math_answers import verify_boxed_math_answer as verify_boxed_math_answer
    from vfnb.utils.outputs import compare_stdout_results as compare_stdout_results
    from vfnb.utils.outputs import parse_pytest_outcomes as parse_pytest_outcomes

__version__ = "0.1.0"

_ROOMS: dict[str, str] = {
    "vfnb.agents": "Agent Harness HarnessConfig HarnessSession ScoringConfig Timeouts harness harnesses make_agent",
    "vfnb.clients": "VLLM Embedded EvalClient ModelClient Price Relay Replay Scripted TokenEngine TrainClient",
    "vfnb.dialects": "Dialect",
    "vfnb.errors": "ToolError",
    "vfnb.interception": "Completion Limits SessionStopped",
    "vfnb.lab": "Summary print_prompt_completions_sample schema",
    "vfnb.lab.learning_figure": "plot_learning",
    "vfnb.lab.theme": "theme",
    "vfnb.runs": "Comparison EvalConfig Run Study Validation compare diff evaluate frame load study validate",
    "vfnb.runtimes": "ProgramResult Runtime RuntimeConfig",
    "vfnb.tasks": (
        "Criterion DecisionJudge DecisionJudgeConfig Judge JudgeConfig JudgeResponse JudgeScore Judges "
        "McpServer ReferenceJudge ReferenceJudgeConfig RubricJudge RubricJudgeConfig SelectConfig "
        "SharedToolsetConfig State Task TaskConfig TaskData TaskJudge TaskJudgeConfig Taskset "
        "TasksetConfig Toolset ToolsetConfig ToolsetTimeout intercept load_taskset metric parse_judge_choice "
        "resolve_text_prompt reward stop tool"
    ),
    "vfnb.trace": "Branch ErrorInfo Fork JudgeCall ModelCall Sample Trace",
    "vfnb.types": (
        "AssistantMessage AudioContentPart AudioSource ContentPart FileContentPart FileSource "
        "HostedResult ImageUrlContentPart ImageUrlSource Message Messages OpaqueContentPart OtherMessage "
        "ReasoningContentPart RefusalContentPart Request Response SamplingConfig SystemMessage "
        "TextContentPart Tool ToolCall ToolMessage Usage UserMessage"
    ),
    "vfnb.utils.answers": (
        "extract_boxed_answer extract_number read_answer_file_or_last_reply verify_numeric_answer"
    ),
    "vfnb.utils.git": "capture_patch resolve_head",
    "vfnb.utils.math_answers": "verify_boxed_math_answer",
    "vfnb.utils.outputs": "compare_stdout_results parse_pytest_outcomes",
}
"""Room by room, the names that it gives."""
_WHERE = {name: (room, name) for room, names in _ROOMS.items() for name in names.split()}
_WHERE["Program"] = ("vfnb_harnesses.program", "ProgramHarness")  # a plug-in, found by name like any other

__all__ = [
    "VLLM",
    "Agent",
    "AssistantMessage",
    "AudioContentPart",
    "AudioSource",
    "Branch",
    "Comparison",
    "Completion",
    "ContentPart",
    "Criterion",
    "DecisionJudge",
    "DecisionJudgeConfig",
    "Dialect",
    "Embedded",
    "ErrorInfo",
    "EvalClient",
    "EvalConfig",
    "FileContentPart",
    "FileSource",
    "Fork",
    "Harness",
    "HarnessConfig",
    "HarnessSession",
    "HostedResult",
    "ImageUrlContentPart",
    "ImageUrlSource",
    "Judge",
    "JudgeCall",
    "JudgeConfig",
    "JudgeResponse",
    "JudgeScore",
    "Judges",
    "Limits",
    "McpServer",
    "Message",
    "Messages",
    "ModelCall",
    "ModelClient",
    "OpaqueContentPart",
    "OtherMessage",
    "Price",
    "Program",
    "ProgramResult",
    "ReasoningContentPart",
    "ReferenceJudge",
    "ReferenceJudgeConfig",
    "RefusalContentPart",
    "Relay",
    "Replay",
    "Request",
    "Response",
    "RubricJudge",
    "RubricJudgeConfig",
    "Run",
    "Runtime",
    "RuntimeConfig",
    "Sample",
    "SamplingConfig",
    "ScoringConfig",
    "Scripted",
    "SelectConfig",
    "SessionStopped",
    "SharedToolsetConfig",
    "State",
    "Study",
    "Summary",
    "SystemMessage",
    "Task",
    "TaskConfig",
    "TaskData",
    "TaskJudge",
    "TaskJudgeConfig",
    "Taskset",
    "TasksetConfig",
    "TextContentPart",
    "Timeouts",
    "TokenEngine",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolMessage",
    "Toolset",
    "ToolsetConfig",
    "ToolsetTimeout",
    "Trace",
    "TrainClient",
    "Usage",
    "UserMessage",
    "Validation",
    "__version__",
    "capture_patch",
    "compare",
    "compare_stdout_results",
    "diff",
    "errors",
    "evaluate",
    "extract_boxed_answer",
    "extract_number",
    "frame",
    "harness",
    "harnesses",
    "intercept",
    "load",
    "load_taskset",
    "make_agent",
    "metric",
    "parse_judge_choice",
    "parse_pytest_outcomes",
    "plot_learning",
    "print_prompt_completions_sample",
    "read_answer_file_or_last_reply",
    "resolve_head",
    "resolve_text_prompt",
    "reward",
    "runs",
    "schema",
    "stop",
    "study",
    "theme",
    "tool",
    "validate",
    "verify_boxed_math_answer",
    "verify_numeric_answer",
]


def __getattr__(name: str) -> Any:
    if name in ("errors", "runs"):  # rooms; `runs` is a function as well
        return import_module(f"vfnb.{name}")
    try:
        room, attribute = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module 'vfnb' has no attribute {name!r}") from None
    value = globals()[name] = getattr(import_module(room), attribute)
    return value


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext vfnb`: the notebook magics `%%harness`, `%%reward` and `%vf`."""
    import_module("vfnb.magics").load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__} - {"Any", "TYPE_CHECKING", "annotations", "import_module"})
