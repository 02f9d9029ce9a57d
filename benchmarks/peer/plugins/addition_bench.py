"""The addition tasks, for the peer's command line."""

import verifiers.v1 as vf


class AdditionData(vf.TaskData):
    answer: int


class AdditionTask(vf.Task[AdditionData]):
    @vf.reward
    async def exact_match(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


class AdditionTaskset(vf.Taskset[AdditionTask, vf.TasksetConfig]):
    def load(self) -> list[AdditionTask]:
        data = [AdditionData(idx=i, prompt=f"What is {i} + {i}?", answer=2 * i) for i in range(4096)]
        return [AdditionTask(entry, self.config.task) for entry in data]


__all__ = ["AdditionTaskset"]
