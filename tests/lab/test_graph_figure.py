"""The networkx graph, the layout and the figure of a trace."""

from __future__ import annotations

import base64
import itertools
import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import networkx as nx
import plotly.graph_objects as go
import pytest
from support.html_rules import check_bundle
from support.talks import chain, family, say
from support.views import HOSTILE

from vfnb.errors import ConfigError
from vfnb.lab.figures import PLOTLY
from vfnb.lab.graphs import trace_graph
from vfnb.lab.layout import layout
from vfnb.lab.links import links
from vfnb.lab.trace_figures import plot_trace
from vfnb.trace import Trace
from vfnb.types import SystemMessage, UserMessage


def bushy(turns: int = 120, every: int = 3) -> Trace:
    """A main line on which every third prompt got three more replies, and one of them went on."""
    trace = Trace()
    parent, new = -1, [SystemMessage(content="go")]
    for turn in range(turns):
        parent = say(trace, parent, [*new, UserMessage(content=f"turn {turn}")], f"reply {turn}")
        new = []
        if turn % every == 0:
            prompt = trace.dag.nodes[parent].parent
            for other in range(3):
                end = say(trace, prompt, [], f"reply {turn} {other}")
            say(trace, end, [UserMessage(content="further")], "end")
    return trace


def test_the_graph_has_nodes_edges_and_their_attributes() -> None:
    trace = family()
    graph = trace.graph()
    assert isinstance(graph, nx.DiGraph)
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.graph == {"trace": "f" * 32, "task": "files/3", "version": 6, "collapse": "none"}
    assert list(graph) == [node.index for node in trace.nodes]
    assert graph.nodes[6] == {
        "role": "assistant",
        "label": 'assistant: → agent({"task": "count all …',
        "text": '→ agent({"task": "count all the files in the folder"})',
        "kind": "sampled",
        "sampled": True,
        "messages": 1,
        "turns": 1,
        "last": 6,
        "depth": 4,
        "tokens": 3,
        "reward": pytest.approx(1 / 6),
        "start": 100.0,
        "end": 101.0,
        "call": 2,
        "branch": 0,
        "branches": 2,
        "cause": None,
    }
    assert {n: d["cause"] for n, d in graph.nodes(data=True) if d["cause"]} == {
        3: "side_call",
        7: "subagent",
        12: "resample",
    }
    kinds = {(a, b): kind for a, b, kind in graph.edges(data="kind")}
    assert kinds.pop((6, 7)) == "spawned_by"
    assert kinds.pop((9, 10)) == "returned_to"
    assert set(kinds.values()) == {"continuation"}
    assert set(kinds) == {(node.parent, node.index) for node in trace.nodes if node.parent >= 0}
    leaves = [n for n in graph if not any(graph.edges[n, m]["kind"] == "continuation" for m in graph[n])]
    assert leaves == sorted(branch.leaf for branch in trace.branches)


def test_a_summary_and_a_rewrite_are_linked() -> None:
    trace = Trace()
    summary = "So far we found three bugs in the parser."
    end = say(
        trace,
        -1,
        [SystemMessage(content="s"), UserMessage(content="fix the parser please")],
        "working on it now",
    )
    end = say(trace, end, [UserMessage(content="more")], "still working on it")
    asked = say(trace, end, [UserMessage(content="Summarise.")], summary)
    new = [SystemMessage(content="s"), UserMessage(content=f"Earlier: {summary}")]
    start = say(trace, 0, new[1:], "continuing from there")
    first = say(trace, start, [UserMessage(content="first wording")], "an answer to it")
    say(trace, first, [UserMessage(content="on")], "fine then")
    second = say(trace, start, [UserMessage(content="second wording")], "another answer to it")
    say(trace, second, [UserMessage(content="on")], "fine again")
    found = {(a, b): kind for a, b, kind in trace_graph(trace).edges(data="kind") if kind != "continuation"}
    assert found == {
        (asked, trace.dag.nodes[start].parent): "compaction_of",
        (trace.dag.nodes[first].parent, trace.dag.nodes[second].parent): "rewrite",
    }


def test_the_time_of_a_graph_grows_with_its_messages() -> None:
    spent = []
    for turns in (1000, 5000):
        trace = chain(turns)
        start = time.process_time()
        graph = trace_graph(trace)
        spent.append(time.process_time() - start)
        assert len(graph) == 2 * turns + 1
    assert spent[1] < 20 * spent[0]  # five times the messages


def test_no_two_messages_share_a_place_and_time_runs_right() -> None:
    trace = bushy()
    places = layout(trace.dag)
    assert len(set(zip(places.x, places.y, strict=True))) == len(trace.nodes) == 440 + 1
    for node in trace.nodes:
        if node.parent >= 0:
            assert places.x[node.index] == places.x[node.parent] + 1
        assert places.y[node.index] == places.y[node.branch]
    # Branches in one lane are apart by at least one empty column.
    lanes: dict[int, list[tuple[int, int]]] = {}
    for node in trace.nodes:
        lanes.setdefault(places.y[node.index], []).append((places.x[node.index], node.branch))
    for members in lanes.values():
        members.sort()
        for (x, branch), (next_x, next_branch) in itertools.pairwise(members):
            assert next_x - x >= (1 if branch == next_branch else 2)
    assert places.lanes < 8  # lanes are used again


def test_relations_lead_to_the_right() -> None:
    dag = family().dag
    joined = links(dag)
    places = layout(dag, joined)
    assert [link.kind for link in joined] == ["spawned_by", "returned_to"]
    assert all(places.x[link.source] < places.x[link.target] for link in joined)
    assert len(set(zip(places.x, places.y, strict=True))) == len(dag.nodes)


def test_the_figure_shows_each_message_once_with_its_text() -> None:
    trace = family(HOSTILE)
    plot = trace.plot()
    figure = plot.figure
    assert isinstance(figure, go.Figure)
    assert not isinstance(figure, go.FigureWidget)
    marks = [part for part in figure.data if part.mode == "markers"]
    assert sorted(index for part in marks for index in part.customdata) == list(range(len(trace.nodes)))
    symbols = {part.name: part.marker.symbol for part in marks}
    assert symbols["assistant, sampled"] == "diamond"
    assert symbols["user"] == "circle-open"
    hover = " ".join(text for part in marks for text in part.hovertext)
    assert "fork: subagent" in hover
    assert "You count." in hover
    assert "<script>" not in hover
    assert {part.name for part in figure.data if part.mode == "lines"} == {
        "",
        "returned to",
        "spawned by",
    }


def test_the_plot_has_a_static_twin_of_the_same_numbers() -> None:
    trace = family()
    bundle = trace.plot()._repr_mimebundle_()
    json.dumps(bundle)
    assert set(bundle) == {PLOTLY, "text/html", "text/plain"}
    assert {"data", "layout"} <= set(bundle[PLOTLY])
    page = check_bundle(bundle)
    svg = base64.b64decode(page.images[0].split(",", 1)[1])
    root = ET.fromstring(svg)
    assert root[0].tag.endswith("rect") and root[0].attrib["fill"] == "#ffffff"  # its own background
    blue = [part.attrib["d"] for part in root.iter() if part.attrib.get("stroke") == "#0072b2"]
    users = sum(node.role == "user" for node in trace.nodes)
    assert sorted(path.count("M") for path in blue) == [1, users]  # in the legend, in the drawing
    said = [part.text for part in root.iter() if part.tag.endswith("text")]
    assert {"side call", "subagent", "resample", "user", "assistant, sampled"} <= set(said)
    assert "branch at node 7 (root, subagent): 3 messages suA" in bundle["text/plain"]
    assert repr(trace.plot()) == "Plot('Trace ffffffff: 13 messages, 4 branches')"


def test_a_large_trace_is_folded_and_drawn_in_bounds() -> None:
    trace = bushy(2000, 2)
    plot = plot_trace(trace)
    page = check_bundle(plot._repr_mimebundle_())
    svg = base64.b64decode(page.images[0].split(",", 1)[1]).decode()
    assert "boxes drawn; plot.figure has all" in svg
    boxes = [part for part in plot.figure.data if part.type == "bar"]
    drawn = [int(text) for part in boxes for text in part.customdata]
    assert sorted(drawn) == list(trace.graph("branches"))
    branching = {node.index for node in trace.dag.nodes if len(node.children or ()) > 1}
    last = {data["last"] for _, data in trace.graph("branches").nodes(data=True)}
    assert branching <= last


def test_an_empty_trace_can_be_plotted() -> None:
    check_bundle(Trace().plot()._repr_mimebundle_())
    assert len(Trace().graph()) == 0


def test_save(tmp_path: Path) -> None:
    plot = family().plot()
    assert plot.save(tmp_path / "a.svg").read_text().startswith("<svg")
    assert "<img" in plot.save(tmp_path / "a.html").read_text()
    with pytest.raises(ConfigError, match=r"\.html, \.svg or \.png"):
        plot.save(tmp_path / "a.pdf")


def test_a_trace_that_is_written_meanwhile_is_folded_as_it_is() -> None:
    trace = family()
    before = trace.graph("turns")
    say(trace, 11, [UserMessage(content="More.")], "All right.")
    after = trace.graph("turns")
    assert set(before) <= set(after)
    assert list(after)[-1] == 13
    assert after.nodes[13]["messages"] == 2
