"""Graphs of random forked traces, whole and folded, and boxes that never lie over another."""

from __future__ import annotations

import time

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.talks import chain, family, forked

from vfnb.errors import ConfigError
from vfnb.lab.graphs import trace_graph
from vfnb.lab.layout import Box, boxes, layout
from vfnb.lab.links import links
from vfnb.trace import Reward


def widths(graph: nx.DiGraph) -> dict[int, float]:
    return {node: 0.5 + 0.3 * data["messages"] ** 0.5 for node, data in graph.nodes(data=True)}


def overlapping(places: dict[int, Box]) -> list[tuple[int, int]]:
    """Pairs of boxes that lie over another, found by a sweep from left to right."""
    found = []
    active: list[int] = []
    for node in sorted(places, key=lambda one: places[one].x):
        box = places[node]
        active = [other for other in active if places[other].x + places[other].width > box.x + 1e-9]
        found += [
            (other, node)
            for other in active
            if places[other].y < box.y + box.height and box.y < places[other].y + places[other].height
        ]
        active.append(node)
    return found


@settings(max_examples=20, deadline=None)
@given(
    calls=st.integers(0, 60),
    seed=st.integers(0, 10**6),
    collapse=st.sampled_from(["none", "turns", "branches"]),
)
def test_boxes_of_random_traces_do_not_overlap_and_edges_lead_right(
    calls: int, seed: int, collapse: str
) -> None:
    trace = forked(calls, seed)
    graph = trace_graph(trace, collapse)
    places = boxes(graph, widths(graph), height=0.6, gap=0.4)
    assert overlapping(places) == []
    for source, target in graph.edges:
        assert places[source].x + places[source].width + 0.4 <= places[target].x + 1e-9


@pytest.mark.parametrize("messages", [500, 2000])
def test_boxes_of_long_traces_do_not_overlap(messages: int) -> None:
    trace = forked(messages // 2, messages)
    assert len(trace.nodes) >= messages
    for collapse in ("none", "turns", "branches"):
        graph = trace_graph(trace, collapse)
        assert overlapping(boxes(graph, widths(graph))) == []
    places = layout(trace.dag, links(trace.dag))
    assert len(set(zip(places.x, places.y, strict=True))) == len(trace.nodes)


def test_the_cost_of_boxes_grows_with_their_number() -> None:
    def cost(calls: int) -> float:
        graph = trace_graph(forked(calls, 1))
        sizes = widths(graph)
        spent = []
        for _ in range(4):
            start = time.process_time()
            boxes(graph, sizes)
            spent.append(time.process_time() - start)
        return min(spent)

    assert cost(3200) < 32 * cost(400)  # 8 times the boxes; their square would be 64 times the cost


@settings(max_examples=20, deadline=None)
@given(calls=st.integers(1, 50), seed=st.integers(0, 10**6), collapse=st.sampled_from(["turns", "branches"]))
def test_folding_keeps_every_message_edge_and_branch_point(calls: int, seed: int, collapse: str) -> None:
    trace = forked(calls, seed)
    trace.rewards, trace.end_state = {"r": Reward(value=0.7)}, "completed"
    whole, folded = trace_graph(trace), trace_graph(trace, collapse)
    assert nx.is_directed_acyclic_graph(folded)
    held = {}
    for node, data in folded.nodes(data=True):
        message = data["last"]
        while True:  # from the last message back to the first
            held[message] = node
            if message == node:
                break
            message = trace.dag.nodes[message].parent
            assert trace.dag.nodes[message].branch == data["branch"]
    assert sorted(held) == list(whole)
    between = {(held[a], held[b]) for a, b in whole.edges if held[a] != held[b]}
    assert between == set(folded.edges)
    branching = {node.index for node in trace.dag.nodes if len(node.children or ()) > 1}
    assert branching <= {data["last"] for _, data in folded.nodes(data=True)}
    for name in ("messages", "turns", "reward"):
        sums = [sum(data[name] for _, data in graph.nodes(data=True)) for graph in (whole, folded)]
        assert sums[0] == pytest.approx(sums[1])
    assert sums[0] == pytest.approx(0.7)
    assert sum(data["messages"] for _, data in folded.nodes(data=True)) == len(trace.nodes)


def test_turns_and_branches_of_a_known_trace() -> None:
    turns = family().graph("turns")
    assert {node: (data["role"], data["messages"]) for node, data in turns.nodes(data=True)} == {
        0: ("turn", 3),
        3: ("turn", 2),
        5: ("turn", 2),
        7: ("turn", 3),
        10: ("tool", 1),
        11: ("assistant", 1),
        12: ("assistant", 1),
    }
    stretches = family().graph("branches")
    assert [(a, b, kind) for a, b, kind in stretches.edges(data="kind")] == [
        (0, 10, "continuation"),
        (0, 7, "spawned_by"),
        (7, 10, "returned_to"),
        (10, 11, "continuation"),
        (10, 12, "continuation"),
    ]
    assert stretches.nodes[0]["label"] == "5 messages, 2 replies"
    with pytest.raises(ConfigError, match="collapse='all' is none of none, turns, branches"):
        family().graph("all")


def test_a_long_chain_folds_into_one_node() -> None:
    graph = chain(400).graph("branches")
    assert list(graph) == [0]
    assert graph.nodes[0]["messages"] == 801
    assert graph.nodes[0]["tokens"] == 1200


def test_an_unscored_trace_has_no_shares_and_errors_have_none() -> None:
    trace = family()
    trace.end_state = "error"
    assert {share for _, share in trace.graph().nodes(data="reward")} == {None}
