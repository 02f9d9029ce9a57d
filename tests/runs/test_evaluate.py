"""`vf.evaluate` from a taskset to traces, rewards and frames, over every kind of harness."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path

import pytest
from support.addition import add, taskset

import vfnb as vf


def test_a_run_gives_rewards_traces_and_a_summary(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(6), model=vf.Scripted(add), rollouts=2, dir=tmp_path / "run").wait(quiet=True)

    assert run.complete
    frame = run.rewards
    assert list(frame["reward"]) == [1.0] * 12
    assert list(frame["exact_match"]) == [1.0] * 12
    assert set(frame.columns) >= {"reward", "task", "rollout", "ok", "stop", "error"}
    assert frame.attrs["complete"] is True
    assert len(run.traces) == 12
    trace = run.traces[3]
    assert (trace.last_reply, trace.reward, trace.end_state, trace.ok) == ("2", 1.0, "completed", True)
    assert [m.role for m in trace.messages] == ["user", "assistant"]
    assert list(trace.timing) == ["boot", "setup", "agent", "finalize", "scoring"]
    assert run.summary.reward.mean == 1.0
    assert run.summary.scored == 12
    assert list(run.tasks["pass_rate"]) == [1.0] * 6


def test_a_finished_run_opens_from_its_folder(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(3), model=vf.Scripted(add), dir=tmp_path / "run").wait(quiet=True)
    again = vf.load(run.dir)

    assert again.complete
    assert list(again.rewards["reward"]) == [1.0, 1.0, 1.0]
    assert again.summary.to_dict()["reward"] == run.summary.to_dict()["reward"]
    assert again.config["taskset"] == {
        "id": "support.addition:AdditionTaskset",
        "num_tasks": 3,
    }
    assert [t.id for t in again.traces] == [t.id for t in run.traces]


@vf.harness
async def ask_twice(session: vf.HarnessSession, task: vf.Task) -> str:
    draft = await session.complete(task.data.prompt)
    checked = await session.complete([*draft.messages, vf.UserMessage(content="Check 1 + 1.")])
    return f"{draft.text}/{checked.text}"


def test_a_function_is_a_harness_and_its_return_value_the_answer(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(3), model=vf.Scripted(add), harness=ask_twice, dir=tmp_path / "run").wait(
        quiet=True
    )

    trace = run.traces[2]
    assert trace.last_reply == "4/2"
    assert trace.num_turns == 2
    assert len(trace.branches) == 1
    assert [m.role for m in trace.messages] == ["user", "assistant", "user", "assistant"]


async def _through_openai(session: vf.HarnessSession, task: vf.Task) -> str:
    reply = await session.openai().chat.completions.create(
        model=session.model, messages=[{"role": "user", "content": task.data.prompt}]
    )
    return reply.choices[0].message.content


async def _through_anthropic(session: vf.HarnessSession, task: vf.Task) -> str:
    question = [{"role": "user", "content": task.data.prompt}]
    async with session.anthropic().messages.stream(
        model=session.model, max_tokens=99, messages=question
    ) as stream:
        return await stream.get_final_text()


async def _through_http(session: vf.HarnessSession, task: vf.Task) -> str:
    import httpx

    async with httpx.AsyncClient() as client:
        response = await client.post(
            f"{session.base_url}/chat/completions",
            json={"model": session.model, "messages": [{"role": "user", "content": task.data.prompt}]},
            headers={"Authorization": f"Bearer {session.api_key}"},
        )
    return response.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("harness", "dialect"),
    [(_through_openai, "chat"), (_through_anthropic, "messages"), (_through_http, "chat")],
)
def test_any_client_reaches_the_session(tmp_path: Path, harness: object, dialect: str) -> None:
    run = vf.evaluate(taskset(4), model=vf.Scripted(add), harness=harness, dir=tmp_path / "run").wait(
        quiet=True
    )
    assert list(run.rewards["reward"]) == [1.0] * 4
    assert list(run.frame("calls")["dialect"]) == [dialect] * 4


def test_the_null_harness_as_a_program(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(3), model=vf.Scripted(add), runtime="subprocess", dir=tmp_path / "run").wait(
        quiet=True
    )
    assert list(run.rewards["reward"]) == [1.0] * 3
    assert {call.transport for trace in run.traces for call in trace.calls} == {"http"}


AGENT = textwrap.dedent(
    """
    import json, os, sys, urllib.request
    body = json.dumps({"model": sys.argv[1], "messages": [{"role": "user", "content": sys.argv[2]}]})
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", body.encode(),
        {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
    )
    print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
    """
)


def test_any_program_is_an_agent(tmp_path: Path) -> None:
    program = vf.Program([sys.executable, "agent.py", "{model}", "{prompt}"], files={"agent.py": AGENT})
    run = vf.evaluate(taskset(3), model=vf.Scripted(add), harness=program, dir=tmp_path / "run").wait(
        quiet=True
    )
    assert list(run.rewards["reward"]) == [1.0] * 3


def test_a_run_is_awaited_in_a_running_loop(tmp_path: Path) -> None:
    async def cell() -> vf.Run:
        return await vf.evaluate(taskset(2), model=vf.Scripted(add), dir=tmp_path / "run")

    assert asyncio.run(cell()).complete


def test_evaluate_takes_a_class_and_a_list_of_tasks(tmp_path: Path) -> None:
    tasks = list(taskset(5))[1:3]
    run = vf.evaluate(tasks, model=vf.Scripted(add), dir=tmp_path / "list").wait(quiet=True)
    assert list(run.rewards["reward"]) == [1.0, 1.0]
    run = vf.evaluate(type(taskset(1)), model=vf.Scripted(add), n=2, dir=tmp_path / "class").wait(quiet=True)
    assert len(run.traces) == 2


def test_evaluate_takes_the_id_of_an_installed_taskset(tmp_path: Path) -> None:
    run = vf.evaluate("addition", model=vf.Scripted(add), n=2, dir=tmp_path / "run").wait(quiet=True)
    assert list(run.rewards["reward"]) == [1.0, 1.0]


def test_an_agent_runs_one_task_without_a_store() -> None:
    agent = vf.make_agent(model=vf.Scripted(add))
    trace = asyncio.run(agent.run(next(iter(taskset(1)))))
    assert (trace.reward, trace.end_state) == (1.0, "completed")


def test_a_running_run_shows_snapshots(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(4), model=vf.Scripted(add, latency=0.6), concurrency=2, dir=tmp_path / "run")
    assert run.complete is False
    assert run.rewards.attrs["complete"] is False
    assert "of 4" in str(run)
    with pytest.raises(TimeoutError, match="goes on"):
        run.wait(0.05, quiet=True)
    assert run.wait(quiet=True).complete
    assert len(run.rewards) == 4


def test_limits_stop_a_rollout_and_it_is_scored(tmp_path: Path) -> None:
    @vf.harness
    async def endless(session: vf.HarnessSession, task: vf.Task) -> None:
        messages = [vf.UserMessage(content=task.data.prompt)]
        while True:
            messages = [*(await session.complete(messages)).messages, vf.UserMessage(content="1 + 1?")]

    run = vf.evaluate(
        taskset(1), model=vf.Scripted(add), harness=endless, limits={"max_turns": 3}, dir=tmp_path / "run"
    ).wait(quiet=True)
    trace = run.traces[0]
    assert (trace.end_state, trace.stop_condition, trace.num_turns) == ("stopped", "max_turns", 3)
    assert trace.reward == 0.0
    assert trace.is_truncated


def test_a_budget_stops_the_run_and_a_larger_one_resumes_it(tmp_path: Path) -> None:
    def start(tokens: int) -> vf.Run:
        model = vf.Scripted(add, latency=0.01)
        return vf.evaluate(
            taskset(40), model=model, concurrency=2, max_tokens=tokens, dir=tmp_path / "run"
        ).wait(quiet=True)

    first = start(300)
    assert not first.complete
    done = first.summary.scored
    assert 0 < done < 40
    assert "max_tokens" in str(first)
    second = start(1_000_000)
    assert second.complete
    assert second.summary.scored == 40
    assert second.summary.reused >= done


def test_tags_and_notes_are_stored_at_once(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(2), model=vf.Scripted(add), dir=tmp_path / "run").wait(quiet=True)
    trace = run.traces[1]
    trace.tag("odd")
    trace.tag("odd")
    trace.note("look at this again")
    again = vf.load(run.dir).traces(trace.id)
    assert (again.tags, again.notes) == (["odd"], ["look at this again"])


def test_the_pass_threshold_can_be_chosen(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(4), model=vf.Scripted(["2"], cycle=True), dir=tmp_path / "run").wait(quiet=True)
    assert run.summary.pass_at_k[0].value == 0.25
    assert run.summarise(threshold=0.0).pass_at_k[0].value == 1.0
