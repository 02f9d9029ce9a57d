"""`vf.Replay`: a harness runs again on recorded replies, and says where its requests first differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfnb as vf
from vfnb.errors import ConfigError


class Talk(vf.Task[vf.TaskData]):
    @vf.reward
    def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


def tasks(count: int = 2) -> list[Talk]:
    return [Talk(vf.TaskData(idx=i, prompt=f"Question {i}")) for i in range(count)]


@vf.harness
async def twice(session: vf.HarnessSession, task: Talk) -> str:
    draft = await session.complete(str(task.data.prompt))
    return (await session.complete([*draft.messages, vf.UserMessage(content="Check it.")])).text


@vf.harness
async def other_words(session: vf.HarnessSession, task: Talk) -> str:
    draft = await session.complete(str(task.data.prompt))
    return (await session.complete([*draft.messages, vf.UserMessage(content="Are you sure?")])).text


@vf.harness
async def one_more(session: vf.HarnessSession, task: Talk) -> str:
    draft = await session.complete(str(task.data.prompt))
    second = await session.complete([*draft.messages, vf.UserMessage(content="Check it.")])
    return (await session.complete([*second.messages, vf.UserMessage(content="Once more.")])).text


def numbered() -> vf.Scripted:
    count = iter(range(1000))
    return vf.Scripted(lambda messages: f"reply {next(count)} to {messages[-1].text}")


def recorded(folder: Path, rollouts: int = 2) -> vf.Run:
    return vf.evaluate(
        tasks(), model=numbered(), harness=twice, rollouts=rollouts, dir=folder, concurrency=1
    ).wait(quiet=True)


def test_the_same_harness_gets_the_same_replies(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a")
    replay = vf.Replay(run)
    again = vf.evaluate(tasks(), model=replay, harness=twice, rollouts=2, dir=tmp_path / "b").wait(quiet=True)
    assert not again.summary.errors
    told = [sorted(message.text for trace in r.traces for message in trace.messages) for r in (run, again)]
    assert told[0] == told[1]
    report = replay.report()
    assert report["calls"].tolist() == report["replayed"].tolist() == [2, 2, 2, 2]
    assert sorted(report["trace"]) == sorted(trace.id for trace in run.traces)
    assert report["message"].isna().all() and not replay.differences
    assert all(call.replayed for trace in again.traces for call in trace.calls)
    assert not any(call.replayed for trace in run.traces for call in trace.calls)


def test_a_streaming_client_of_another_dialect_gets_them_too(tmp_path: Path) -> None:
    pytest.importorskip("anthropic")

    @vf.harness
    async def by_messages(session: vf.HarnessSession, task: Talk) -> str:
        client = session.anthropic()
        asked: list[Any] = [{"role": "user", "content": str(task.data.prompt)}]
        for _ in range(2):
            async with client.messages.stream(model="m", max_tokens=50, messages=asked) as stream:
                message = await stream.get_final_message()
            asked += [{"role": "assistant", "content": message.content[0].text}]  # type: ignore[union-attr]
            asked += [{"role": "user", "content": "Check it."}]
        return str(asked[-2]["content"])

    run = recorded(tmp_path / "a", rollouts=1)
    replay = vf.Replay(run)
    again = vf.evaluate(tasks(), model=replay, harness=by_messages, dir=tmp_path / "b").wait(quiet=True)
    assert not again.summary.errors
    assert [t.last_reply for t in again.traces] == [t.last_reply for t in run.traces]


def test_the_first_difference_is_an_error_with_its_place(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a", rollouts=1)
    replay = vf.Replay(run)
    again = vf.evaluate(tasks(), model=replay, harness=other_words, dir=tmp_path / "b").wait(quiet=True)
    assert again.rewards["reward"].isna().all()
    assert {trace.errors[-1].type for trace in again.traces} == {"ReplayDiverged"}
    assert "message 2 differs" in again.traces[0].errors[-1].message
    first = replay.differences[0]
    assert (first.call, first.message) == (1, 2)
    assert first.recorded == "user: Check it." and first.asked == "user: Are you sure?"
    assert replay.report().loc[0, "recorded"] == "user: Check it."


def test_a_request_beyond_the_record_fails_or_goes_to_the_model(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a", rollouts=1)
    short = vf.evaluate(tasks(), model=vf.Replay(run), harness=one_more, dir=tmp_path / "b").wait(quiet=True)
    assert "no further reply" in short.traces[0].errors[-1].message or short.traces[0].errors[-1].type == (
        "ReplayDiverged"
    )
    replay = vf.Replay(run, then=vf.Scripted(["the end"], cycle=True))
    longer = vf.evaluate(tasks(), model=replay, harness=one_more, dir=tmp_path / "c").wait(quiet=True)
    assert [trace.last_reply for trace in longer.traces] == ["the end", "the end"]
    assert replay.report()["live"].tolist() == [1, 1]


def test_recorded_failures_fail_again(tmp_path: Path) -> None:
    @vf.harness
    async def stubborn(session: vf.HarnessSession, task: Talk) -> str:
        try:
            await session.complete("Too long?")
        except Exception:
            return (await session.complete("Shorter")).text
        return "never"

    model = vf.Scripted([vf_context(), "fine"])
    run = vf.evaluate(tasks(1), model=model, harness=stubborn, dir=tmp_path / "a").wait(quiet=True)
    again = vf.evaluate(tasks(1), model=vf.Replay(run), harness=stubborn, dir=tmp_path / "b").wait(quiet=True)
    kinds = [[call.error.type if call.error else None for call in r.traces[0].calls] for r in (run, again)]
    assert kinds[0] == kinds[1] and kinds[0][0] is not None


def vf_context() -> Exception:
    from vfnb.errors import UpstreamRejected

    return UpstreamRejected("no such thing", status=400)


def test_tokens_come_along_and_are_not_trained_again(tmp_path: Path) -> None:
    run = vf.evaluate(tasks(1), model=vf.Embedded(), harness=twice, dir=tmp_path / "a").wait(quiet=True)
    before = run.traces[0]
    again = vf.evaluate(tasks(1), model=vf.Replay(before), harness=twice, dir=tmp_path / "b").wait(quiet=True)
    after = again.traces[0]
    assert np.array_equal(after.branches[0].token_ids, before.branches[0].token_ids)
    assert np.array_equal(after.branches[0].logprobs, before.branches[0].logprobs)
    assert before.samples() and not after.samples()
    assert after.usage.completion_tokens == before.usage.completion_tokens


def test_times_ids_and_the_box_do_not_count_but_other_numbers_do(tmp_path: Path) -> None:
    words = [
        "In /tmp/vfnb-box-{0}a/work on 2026-01-0{1}: Wall time: 0.{1} seconds, Chunk ID: ab{0}cdef; result 7",
        "In /tmp/vfnb-box-{0}a/work on 2026-01-0{1}: Wall time: 0.{1} seconds, Chunk ID: ab{0}cdef; result 8",
    ]
    told = [words[0].format(11, 1), words[0].format(22, 2), words[1].format(33, 3)]

    def asking(said: str) -> Any:
        @vf.harness
        async def boxed(session: vf.HarnessSession, task: Talk) -> str:
            return (await session.complete(said)).text

        return boxed

    model = vf.Scripted(["Written to /tmp/vfnb-box-11a/work/out.txt"])
    run = vf.evaluate(tasks(1), model=model, harness=asking(told[0]), dir=tmp_path / "a").wait(quiet=True)
    replay = vf.Replay(run)
    same = vf.evaluate(tasks(1), model=replay, harness=asking(told[1]), dir=tmp_path / "b").wait(quiet=True)
    assert same.traces[0].last_reply == "Written to /tmp/vfnb-box-22a/work/out.txt"
    other = vf.evaluate(tasks(1), model=replay, harness=asking(told[2]), dir=tmp_path / "c").wait(quiet=True)
    assert other.traces[0].errors[-1].type == "ReplayDiverged"
    assert replay.differences[0].asked.endswith("result 8")


def test_what_cannot_be_replayed_is_said_before_any_call(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a", rollouts=1)
    with pytest.raises(ConfigError, match="single trace"):
        vf.Replay(run, upto=1)
    with pytest.raises(ConfigError, match="has 2"):
        vf.Replay(run.traces[0], upto=3)
    with pytest.raises(ConfigError, match="no trace with a model call"):
        vf.Replay([])
    assert repr(vf.Replay(run)) == "Replay(2 traces)"
    assert vf.Replay(run).identity() == vf.Replay(run).identity()
