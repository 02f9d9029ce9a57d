"""The published listings of tasksets, word for word, with `verifiers.v1` in the import line."""

from __future__ import annotations

__all__ = ["BLOG", "FILE_ANSWERS", "INFINITE", "MULTIMODAL", "PAGE", "TOLERANCE", "ours"]

BLOG = """
import verifiers.v1 as vf


# The data for a given task
class AdditionData(vf.TaskData):
    answer: int


# A runnable task instance
class AdditionTask(vf.Task[AdditionData]):
    # @vf.reward denotes the scoring function for the task.
    # It needs the trace, which contains the whole message graph, including function calls, user messages etc.
    # It returns the reward for the single task based on this function.
    @vf.reward
    async def exact_match(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


# The taskset defines the tasks and needs a vf.TasksetConfig, which can be empty.
class AdditionTaskset(vf.Taskset[AdditionTask, vf.TasksetConfig]):
    def load(self) -> list[AdditionTask]:
        return [
            AdditionTask(
                AdditionData(idx=i, prompt=f"What is {i} + {i}?", answer=2 * i),
                self.config.task,
            )
            for i in range(100)
        ]


# Export the Taskset for verifiers to find it when loading
__all__ = ["AdditionTaskset"]
"""

PAGE = """
import verifiers.v1 as vf


class AdditionData(vf.TaskData):
    # One immutable row in the dataset, including its reference answer.
    answer: int


class AdditionTask(vf.Task[AdditionData]):
    # @vf.reward marks a scoring function for the task.
    # It receives the trace (the full message graph, tool calls, and replies)
    # and returns this reward's score for the rollout.
    @vf.reward
    async def exact_match(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


class AdditionConfig(vf.TasksetConfig):
    # Values users can configure for the whole taskset.
    num_tasks: int = 100


class AdditionTaskset(vf.Taskset[AdditionTask, AdditionConfig]):
    def load(self) -> list[AdditionTask]:
        return [
            AdditionTask(
                AdditionData(prompt=f"What is {i} + {i}?", answer=2 * i),
                self.config.task,
            )
            for i in range(self.config.num_tasks)
        ]
"""

TOLERANCE = """
class AdditionTaskConfig(vf.TaskConfig):
    tolerance: float = 0.0


class AdditionTask(vf.Task[AdditionData, vf.State, AdditionTaskConfig]):
    @vf.reward
    async def exact_match(self, trace: vf.Trace) -> float:
        error = abs(float(trace.last_reply) - self.data.answer)
        return float(error <= self.config.tolerance)


class AdditionConfig(vf.TasksetConfig):
    num_tasks: int = 100
    task: AdditionTaskConfig = AdditionTaskConfig()
"""

INFINITE = """
import itertools
from collections.abc import Iterator


class AdditionTaskset(vf.Taskset[AdditionTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self) -> Iterator[AdditionTask]:
        for i in itertools.count():
            yield AdditionTask(
                AdditionData(prompt=f"What is {i} + {i}?", answer=2 * i),
                self.config.task,
            )
"""


FILE_ANSWERS = """
import verifiers.v1 as vf


class ContextData(vf.TaskData):
    context: str
    answer: str


class ContextTask(vf.Task[ContextData]):
    NEEDS_CONTAINER = True

    async def setup(self, runtime: vf.Runtime) -> None:
        await runtime.write("/workspace/context.txt", self.data.context.encode())

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        trace.info["answer"] = await vf.read_answer_file_or_last_reply(
            runtime, "/workspace/answer.txt", trace
        )

    @vf.metric
    async def answered(self, trace: vf.Trace) -> float:
        return float(bool(trace.info["answer"]))

    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float(trace.info["answer"] == self.data.answer)
"""

MULTIMODAL = """
import verifiers.v1 as vf
from verifiers.v1.utils.image import image_data_url

data = vf.TaskData(
    prompt=[
        vf.UserMessage(
            content=[
                vf.TextContentPart(text="What is shown in this image?"),
                vf.ImageUrlContentPart(
                    image_url=vf.ImageUrlSource(url=image_data_url(image)),
                ),
            ]
        )
    ]
)
"""


def ours(listing: str) -> str:
    """The listing with the import lines changed, and nothing else."""
    plain = listing.replace("import verifiers.v1 as vf", "import vfnb as vf")
    return plain.replace("from verifiers.v1.utils.", "from vfnb.utils.")
