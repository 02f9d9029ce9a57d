"""`run.fork`: replay to a message, then live; the forks are compared with the rollout's group."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.html_rules import check_bundle

import vfnb as vf
from vfnb.errors import ConfigError


class Guess(vf.TaskData):
    answer: str


class GuessTask(vf.Task[Guess]):
    @vf.reward
    def right(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)


def tasks() -> list[GuessTask]:
    return [GuessTask(Guess(idx=i, prompt=f"Word {i}?", answer=f"word{i}")) for i in range(2)]


@vf.harness
async def three(session: vf.HarnessSession, task: GuessTask) -> str:
    """A conversation of three replies."""
    messages: list[vf.Message] = [vf.UserMessage(content=str(task.data.prompt))]
    reply = await session.complete(messages)
    for words in ("Think.", "Answer."):
        reply = await session.complete([*reply.messages, vf.UserMessage(content=words)])
    return reply.text


def wrong(messages: vf.Messages) -> str:
    return f"wrong after {len(messages)}"


def right(messages: vf.Messages) -> str:
    return f"word0 after {len(messages)}"


def recorded(folder: Path) -> vf.Run:
    return vf.evaluate(tasks(), model=vf.Scripted(wrong), harness=three, rollouts=2, dir=folder).wait(
        quiet=True
    )


def test_a_fork_keeps_the_history_and_asks_the_model_from_there(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a")
    trace = run.traces[0]
    reply = next(node for node in trace.nodes if node.sampled and node.call == 1)
    asked: list[int] = []

    def live(messages: vf.Messages) -> str:
        asked.append(len(messages))
        return right(messages)

    fork = run.fork(trace, reply, n=4, model=vf.Scripted(live)).wait(quiet=True)
    assert asked == [5, 5, 5, 5]
    assert [t.group_id for t in fork.run.traces] == [trace.group_id] * 4
    for made in fork.run.traces:
        assert [m.text for m in made.messages[:4]] == [m.text for m in trace.messages[:4]]
        assert [call.replayed for call in made.calls] == [True, True, False]
    assert fork.value.mean == 1.0 and fork.group.mean == 0.0 and fork.change.mean == 1.0
    frame = fork.frame()
    assert frame["kind"].tolist() == ["original"] + ["fork"] * 4
    assert frame["reward"].tolist() == [0.0, 1.0, 1.0, 1.0, 1.0]
    assert run.rewards["reward"].tolist() == [0.0] * 4  # the run itself is as it was


def test_a_fork_at_a_prompt_message_makes_its_reply_anew(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a")
    trace = run.traces[0]
    think = next(node for node in trace.nodes if node.text == "Think.")
    fork = run.fork(trace.id[:10], think.index, n=2, model=vf.Scripted(right)).wait(quiet=True)
    assert [call.replayed for call in fork.run.traces[0].calls] == [True, False, False]
    whole = run.fork(0, 0, n=1, model=vf.Scripted(right)).wait(quiet=True)
    assert [call.replayed for call in whole.run.traces[0].calls] == [False, False, False]


def test_the_same_fork_goes_on_with_what_is_done(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a")
    first = run.fork(0, 1, n=2, model=vf.Scripted(["word0"], cycle=True)).wait(quiet=True)
    more = run.fork(0, 1, n=3, model=vf.Scripted(["word0"], cycle=True)).wait(quiet=True)
    assert more.run.dir == first.run.dir and more.run.summary.reused == 2
    (tmp_path / "a/forks/junk").mkdir()
    (tmp_path / "a/forks/junk/run.sqlite").write_bytes(b"junk")
    found = vf.load(tmp_path / "a").forks
    assert [(fork.trace.id, fork.node, len(fork.run.traces)) for fork in found] == [(run.traces[0].id, 1, 3)]
    check_bundle(found[0]._repr_mimebundle_())
    text = str(found[0])
    assert "forks minus task" in text and "at message 1" in text


def test_a_stored_run_needs_its_objects_or_a_config_that_names_them(tmp_path: Path) -> None:
    recorded(tmp_path / "a")
    stored = vf.load(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"taskset=.* as an object"):
        stored.fork(0, 1, n=1)
    with pytest.raises(ConfigError, match="model"):
        stored.fork(0, 1, n=1, taskset=tasks(), harness=three)
    fork = stored.fork(0, 1, n=1, taskset=tasks(), harness=three, model=vf.Scripted(right)).wait(quiet=True)
    assert fork.value.mean == 1.0
    with pytest.raises(ConfigError, match="none of the 6 messages"):
        stored.fork(0, 17, n=1, taskset=tasks(), harness=three, model=vf.Scripted(right))
    with pytest.raises(ConfigError, match="no trace of run"):
        stored.fork(None, 0, n=1, taskset=tasks(), harness=three)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="did you mean 'retries'"):
        stored.fork(0, 1, n=1, retrys=2)


def test_a_tool_that_answers_otherwise_is_a_divergence_not_a_fork(tmp_path: Path) -> None:
    class Clock(vf.Toolset):
        ticks = 0

        @vf.tool
        def tick(self) -> str:
            """The time."""
            Clock.ticks += 1
            return str(Clock.ticks)

    class Timed(vf.Task[Guess]):
        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
            return [Clock()]

        @vf.reward
        def one(self, trace: vf.Trace) -> float:
            return 1.0

    def ask(messages: vf.Messages) -> vf.AssistantMessage | str:
        if len(messages) < 4:
            return vf.AssistantMessage(
                tool_calls=[vf.ToolCall(id=f"c{len(messages)}", name="tick", arguments="{}")]
            )
        return "done"

    run = vf.evaluate(
        [Timed(Guess(idx=0, prompt="?", answer=""))],
        model=vf.Scripted(ask),
        harness="null",
        dir=tmp_path / "a",
    ).wait(quiet=True)
    fork = run.fork(0, run.traces[0].nodes[-1], n=1).wait(quiet=True)
    trace = fork.run.traces[0]
    assert trace.errors[-1].type == "ReplayDiverged" and "message 2 differs" in trace.errors[-1].message
    assert fork.value.mean is None and "ReplayDiverged" in str(fork)


def test_forks_train_only_what_was_sampled_anew(tmp_path: Path) -> None:
    run = vf.evaluate(tasks(), model=vf.Embedded(), harness=three, rollouts=1, dir=tmp_path / "a").wait(
        quiet=True
    )
    trace = run.traces[0]
    reply = next(node for node in trace.nodes if node.sampled)
    fork = run.fork(trace, reply, n=3).wait(quiet=True)
    assert not fork.run.summary.errors
    kept = trace.dag.nodes[reply.index].total
    for made in fork.run.traces:
        first = made.branches[0]
        assert np.array_equal(first.token_ids[:kept], trace.branches[0].token_ids[:kept])
        live = sum(call.usage.completion_tokens for call in made.calls if not call.replayed and call.usage)
        assert sum(int(sample.mask.sum()) for sample in made.samples()) == live > 0
    assert len({t.last_reply for t in fork.run.traces}) > 1
    assert fork.run.export("arrow", tmp_path / "out")
    fork.run.export("verifiers", tmp_path / "records")
    again = vf.load(tmp_path / "records").traces
    assert [[call.replayed for call in made.calls] for made in again] == [[True, False, False]] * 3
    assert [made.samples()[0].mask.tolist() for made in again] == [
        made.samples()[0].mask.tolist() for made in fork.run.traces
    ]


def test_forks_are_compared_with_scores_by_the_same_rewards(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a")

    def five(trace: vf.Trace) -> float:
        return 5.0

    run.rescore([five], weights={"right": 0.0}, label="five")
    fork = run.fork(0, 1, n=2, model=vf.Scripted(right)).wait(quiet=True)
    assert (fork.value.mean, fork.group.mean, fork.change.mean) == (1.0, 0.0, 1.0)
    assert fork.frame()["reward"].tolist() == [0.0, 1.0, 1.0]
    assert "the run shows version 1 (five (rescored: five)); the forks have the rewards of version 0" in str(
        fork
    )

    fork.run.rescore([five], label="other")
    assert fork.change.mean is None and "not compared: scored by different rewards" in str(fork)
    fork.run.rescore([five], weights={"right": 0.0}, label="five")
    assert (fork.value.mean, fork.group.mean, fork.change.mean) == (5.0, 5.0, 0.0)
    assert "version 0" not in str(fork)
