"""The traces of one task as one tree."""

from __future__ import annotations

import networkx as nx
import pytest
from support.html_rules import check_bundle
from support.talks import failed, forked, say
from support.views import HOSTILE

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.lab.prefix_tree import plot_prefix_tree, prefix_tree
from vfnb.trace import Reward, Trace
from vfnb.types import SystemMessage, UserMessage


def rollout(replies: list[str], reward: float | None) -> Trace:
    trace = Trace()
    new = [SystemMessage(content="Be brief."), UserMessage(content="2+2?")]
    parent = -1
    for reply in replies:
        parent = say(trace, parent, new, reply)
        new = [UserMessage(content="Sure?")]
    if reward is not None:
        trace.rewards, trace.end_state = {"r": Reward(value=reward)}, "completed"
    else:
        trace.end_state = "error"
    return trace


def four() -> list[Trace]:
    return [
        rollout(["4", "yes"], 1.0),
        rollout(["4", "no, 5"], 0.0),
        rollout(["5"], 0.2),
        rollout(["4"], None),
    ]


def test_counts_rewards_and_errors_of_what_traces_share() -> None:
    traces = four()
    graph = prefix_tree(traces, "sums")
    told = [
        (data["role"], data["text"], data["count"], data["scored"], data["reward"], data["errors"])
        for _, data in graph.nodes(data=True)
    ]
    assert told == [
        ("system", "Be brief.", 4, 3, pytest.approx(0.4), 1),
        ("user", "2+2?", 4, 3, pytest.approx(0.4), 1),
        ("assistant", "4", 3, 2, 0.5, 1),
        ("user", "Sure?", 2, 2, 0.5, 0),
        ("assistant", "yes", 1, 1, 1.0, 0),
        ("assistant", "no, 5", 1, 1, 0.0, 0),
        ("assistant", "5", 1, 1, 0.2, 0),
    ]
    assert graph.graph == {"task": "sums", "name": "sums", "traces": 4}
    assert nx.is_branching(graph)
    first = next(iter(graph))
    assert graph.nodes[first]["traces"] == [trace.id for trace in traces]
    assert [data["sampled"] for _, data in graph.nodes(data=True)] == [
        False,
        False,
        True,
        False,
        True,
        True,
        True,
    ]
    assert len({data["branch"] for _, data in graph.nodes(data=True)}) == 3
    assert sum(count for *_, count in graph.edges(data="count")) == 4 + 4 - 1 + 2 + 1 + 1 + 1 - 1 + 1


def test_ids_are_the_same_in_every_run_and_a_message_repeated_in_a_trace_counts_once() -> None:
    assert list(prefix_tree(four(), "a")) == list(prefix_tree(four(), "b"))
    trace = rollout(["4"], 1.0)
    say(trace, 1, [], "4")
    say(trace, 1, [], "four")
    graph = prefix_tree([trace], "a")
    assert [data["count"] for _, data in graph.nodes(data=True)] == [1, 1, 1, 1]


def test_the_drawing_folds_what_goes_on_alone_and_keeps_where_ways_part() -> None:
    graph = prefix_tree(four(), "sums")
    plot = plot_prefix_tree(graph, "run")
    page = check_bundle(plot._repr_mimebundle_())
    assert "yes" in page.text
    boxes = [part for part in plot.figure.data if part.type == "bar"]
    text = [one for part in boxes for one in part.text]
    assert text == ["4 s: Be brief. +1", "3 a: 4", "2 u: Sure?", "1 a: yes", "1 a: no, 5", "1 a: 5"]
    assert plot.figure.layout.coloraxis.colorbar.title.text == "mean reward"


def test_without_rewards_and_with_hostile_text() -> None:
    trace = rollout([HOSTILE, HOSTILE], None)
    plot = plot_prefix_tree(prefix_tree([trace, failed(HOSTILE)], HOSTILE), HOSTILE)
    check_bundle(plot._repr_mimebundle_())
    assert "<script" not in plot.figure.to_json()
    check_bundle(plot_prefix_tree(prefix_tree([], "none"), "run")._repr_mimebundle_())


def test_many_forked_traces_stay_in_bounds() -> None:
    traces = [forked(60, seed) for seed in range(40)]
    graph = prefix_tree(traces, "forks")
    assert max(count for _, count in graph.nodes(data="count")) > 1
    check_bundle(plot_prefix_tree(graph, "run")._repr_mimebundle_())


def test_a_run_gives_the_tree_of_any_of_its_tasks(tmp_path_factory: pytest.TempPathFactory) -> None:
    tasks = [vf.Task(vf.TaskData(idx=idx, name=f"task {idx}", prompt=f"question {idx}")) for idx in range(2)]
    folder = tmp_path_factory.mktemp("tree")
    run = vf.evaluate(tasks, model=vf.Scripted(lambda messages: "yes"), rollouts=3, dir=folder).wait(
        quiet=True
    )
    for task in (1, run.traces[3].task.key):
        graph = run.graph(task)
        assert [(data["text"], data["count"]) for _, data in graph.nodes(data=True)] == [
            ("question 1", 3),
            ("yes", 3),
        ]
    assert run.graph().graph["name"] == "task 0"
    assert run.plot("graph", task=1).title.endswith("3 traces of task 1")
    for wrong in (2, "other"):
        with pytest.raises(ConfigError, match="in this run; there are 2"):
            run.graph(wrong)
