"""What our programs share: an empty trace, a journalled session, a client with ready answers."""

from __future__ import annotations

import uuid
from typing import Any

from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.store import EpisodeRow, RunStore, TaskRow, TraceRow
from vfnb.trace import TaskInfo, Trace

__all__ = ["Canned", "begin", "new_trace"]

TASK = TaskRow(digest=b"\0" * 16, idx=0, key="bench", data=b'{"idx":0,"prompt":"bench"}')


class Canned(ModelClient):
    """Answers at once with a prepared body, so that only our own work is measured."""

    name = "mock"

    def __init__(self) -> None:
        self.answer = b""

    def identity(self) -> dict[str, Any]:
        return {"kind": "canned"}

    async def call(self, request: ModelRequest) -> Reply:
        response = request.dialect.read_response(self.answer)
        return Reply(body=self.answer, response=response, served_model="mock")


def new_trace(index: int = 0) -> Trace:
    """An empty trace of a made-up task."""
    task = TaskInfo(idx=index, key=f"task-{index}", data={"idx": index, "prompt": "bench"})
    return Trace(id=uuid.uuid4().hex, task=task, episode_id=uuid.uuid4().hex, rollout=0)


async def begin(store: RunStore, trace: Trace) -> None:
    """Make the trace known to the store."""
    store.put_tasks([TASK])
    store.begin_episode(EpisodeRow(id=trace.episode_id))
    row = TraceRow(id=trace.id, episode=trace.episode_id, task=TASK.digest, task_key=trace.task.key)
    await store.begin_trace(row)
