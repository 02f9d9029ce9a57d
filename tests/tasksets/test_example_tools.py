"""Example tasksets with tools and judges, end to end through the harness `null`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.examples import replies, solve
from support.scripts import asks, call, results
from vfnb_tasksets.counter import CounterTaskset
from vfnb_tasksets.judged_qa import JudgedQATaskset
from vfnb_tasksets.wiki_search import WikiTaskset

import vfnb as vf


def test_counter_state_is_shared_by_tools_and_scoring(tmp_path: Path) -> None:
    def model(messages: vf.Messages) -> Any:
        prompt = next(message.text for message in messages if message.role == "user")
        target = int("".join(filter(str.isdigit, prompt)))
        seen = results(messages)
        if not seen:
            return asks(call("counter_read"))
        if len(messages) > 3 or target == 2 * 3 + 2:  # the third one gives up after reading
            return "done"
        return asks(call("counter_add", amount=target - int(seen[0])))

    traces = solve(CounterTaskset(num_tasks=3), model, tmp_path, rollouts=4)
    assert [trace.reward for trace in traces] == [1.0] * 8 + [0.0] * 4
    assert [trace.metrics["tool_calls"] for trace in traces] == [2.0] * 8 + [1.0] * 4
    assert [trace.info["value"] for trace in traces] == [2] * 4 + [5] * 4 + [2] * 4


@pytest.mark.parametrize("runtime", ["inprocess", "subprocess"])
def test_wiki_search_and_read(tmp_path: Path, runtime: str) -> None:
    told: list[str] = []

    def model(messages: vf.Messages) -> Any:
        question = next(message.text for message in messages if message.role == "user")
        seen = results(messages)
        if not seen:
            return asks(call("wiki_search", query=question), call("wiki_search", query="?!"))
        if len(seen) == 2:
            told.append(seen[1])
            return asks(call("wiki_read", title=seen[0].strip('["').split(":")[0]))
        return seen[0] if seen[0].startswith("An octopus") else "I do not know, perhaps threefold."

    traces = solve(WikiTaskset().include(idx=["0:2"]), model, tmp_path, runtime=runtime)
    assert [trace.reward for trace in traces] == [1.0, 0.0]
    assert [trace.metrics["searches"] for trace in traces] == [2.0, 2.0]
    assert all("the query has no words" in text for text in told) and len(told) == 2


def test_every_wiki_question_is_answered_by_the_page_that_its_words_find(tmp_path: Path) -> None:
    taskset = WikiTaskset()
    tasks = {task.data.prompt: task.data for task in taskset.resolve()}

    def model(messages: vf.Messages) -> Any:
        data = tasks[next(message.text for message in messages if message.role == "user")]
        seen = results(messages)
        if not seen:
            return asks(call("wiki_search", query=data.prompt))
        if "wiki_read" not in str(messages[-2]):
            assert data.page in seen[0]
            return asks(call("wiki_read", title=data.page))
        return seen[0]

    traces = solve(taskset, model, tmp_path)
    assert len(traces) == 8 and {trace.reward for trace in traces} == {1.0}


def test_an_unknown_page_is_told(tmp_path: Path) -> None:
    seen: list[str] = []

    def model(messages: vf.Messages) -> Any:
        seen.extend(results(messages))
        return "nothing" if seen else asks(call("wiki_read", title="Atlantis"))

    (trace,) = solve(WikiTaskset().take(1), model, tmp_path)
    assert trace.reward == 0.0 and "there is no page 'Atlantis'" in seen[0]


def test_judged_answers(tmp_path: Path) -> None:
    def judge(messages: vf.Messages) -> str:
        asked = messages[-1].text
        if "ten-year-old" in asked:
            return "Partly." if "Rayleigh" in asked else "Yes."
        return "yes" if "Rayleigh" in asked.partition("Response:")[2] else "no"

    client = vf.Scripted(judge, name="judge")
    settings = {
        "judges": [vf.ReferenceJudgeConfig(name="correct", client=client)],
        "tone": vf.JudgeConfig(client=client),
    }
    taskset = JudgedQATaskset(task=settings).take(2)
    traces = solve(taskset, replies(taskset, "Rayleigh scattering.", "It is lighter."), tmp_path)
    assert [trace.reward for trace in traces] == [1.0, 0.0]
    assert [trace.rewards["simple"].value for trace in traces] == [0.5, 1.0]
    assert sorted(made.judge for made in traces[0].judge_calls) == ["correct", "tone"]


def test_a_babbling_judge_is_no_zero(tmp_path: Path) -> None:
    client = vf.Scripted(lambda messages: "Well, who knows.")
    judges = [vf.ReferenceJudgeConfig(name="correct", client=client)]
    settings = {"judges": judges, "tone": vf.JudgeConfig(client=client)}
    taskset = JudgedQATaskset(task=settings).take(1)
    run = vf.evaluate(taskset, model=vf.Scripted(["It is."]), dir=tmp_path).wait(quiet=True)
    (trace,) = run.traces
    assert trace.reward is None and {error.type for error in trace.errors} == {"ScoringError"}


def test_another_judge_scores_anew_without_the_agent(tmp_path: Path) -> None:
    agent = vf.Scripted(["Rayleigh scattering."], cycle=True)

    def simple(client: vf.Scripted) -> float | None:
        judges = [vf.ReferenceJudgeConfig(name="correct", client=vf.Scripted(lambda messages: "yes"))]
        taskset = JudgedQATaskset(task={"judges": judges, "tone": vf.JudgeConfig(client=client)}).take(1)
        (trace,) = solve(taskset, agent, tmp_path)
        return trace.rewards["simple"].value

    kind, same, strict = (
        vf.Scripted(lambda m: "yes"),
        vf.Scripted(lambda m: "yes"),
        vf.Scripted(lambda m: "no"),
    )
    assert [simple(kind), simple(same), simple(strict)] == [1.0, 1.0, 0.0]
    assert (agent.calls, kind.calls, same.calls, strict.calls) == (1, 1, 0, 1)
