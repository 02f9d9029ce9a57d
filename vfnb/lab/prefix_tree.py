"""The traces of one task merged: what they have in common is one node, with counts and mean rewards."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from vfnb.lab.charts import Axis, Chart, Layer, Panel, Rects, Scale
from vfnb.lab.figures import Plot, chart_plot
from vfnb.lab.layout import boxes
from vfnb.lab.messages import preview
from vfnb.lab.text import columns, lines
from vfnb.lab.theme import current_theme
from vfnb.lab.tree_figure import edges
from vfnb.lab.words import number, one_line

if TYPE_CHECKING:
    import networkx as nx

    from vfnb.trace import Trace

__all__ = ["plot_prefix_tree", "prefix_tree"]

_COLUMNS, _ROWS = 7, 40  # boxes of the static drawing
_STEP = 1.26  # from box to box; a box is 1 wide
_WIDE, _LANE = 230, 30  # pixels of a step
_SCREEN = 820  # pixels of an interactive figure, about


def prefix_tree(traces: Iterable[Trace], task: str, name: str = "") -> nx.DiGraph:
    """The messages of several traces as one tree: equal messages after equal histories are one node.

    A node's id is a digest (16 hex digits) of its message and of all before it, the same in every run.

    Node attributes: `role`, `text` (one line, at most 200 characters), `label` (at most 40), `depth`, `sampled`
    (whether the model said it in some trace), `count` (traces that hold it), `scored` and `reward` (how many of
    these have a reward, and their mean, None if none), `errors` (how many ended in an error), `traces` (their
    ids) and `branch` (the node where its line began: from each node the line of most traces goes on).

    Edge attributes: `kind` (`continuation`), `ancestry` (True) and `count`.

    Graph attributes: `task` (its key), `name` (of the task) and `traces` (how many).
    """
    import networkx as nx

    graph = nx.DiGraph(task=task, name=name or task, traces=0)
    sums: dict[str, float] = {}
    for trace in traces:
        graph.graph["traces"] += 1
        ids: list[str] = []
        held: set[str] = set()
        _, nodes = trace.dag.snapshot()
        for node in nodes:
            above = ids[node.parent] if node.parent >= 0 else ""
            key = blake2b(above.encode() + node.identity.key, digest_size=8).hexdigest()
            ids.append(key)
            if key not in graph:
                text = preview(node.message, 200)
                graph.add_node(
                    key, role=node.message.role, text=text, label=one_line(f"{node.message.role}: {text}", 40),
                    depth=node.depth, sampled=node.sampled, count=0, scored=0, reward=None, errors=0, traces=[],
                )  # fmt: skip
                if above:
                    graph.add_edge(above, key, kind="continuation", ancestry=True, count=0)
            graph.nodes[key]["sampled"] |= node.sampled
            if key in held:  # a resampled reply that came out the same
                continue
            held.add(key)
            _count(graph.nodes[key], trace, sums, key)
            if above:
                graph.edges[above, key]["count"] += 1
    for key, total in sums.items():
        graph.nodes[key]["reward"] = total / graph.nodes[key]["scored"]
    _lines(graph)
    return graph


def _count(data: dict[str, Any], trace: Trace, sums: dict[str, float], key: str) -> None:
    data["count"] += 1
    data["traces"].append(trace.id)
    data["errors"] += trace.has_error
    if trace.reward is not None:
        data["scored"] += 1
        sums[key] = sums.get(key, 0.0) + trace.reward


def _lines(graph: nx.DiGraph) -> None:
    """Name the line that each node is on."""
    for node, data in graph.nodes(data=True):
        data.setdefault("branch", node)
        following = list(graph.successors(node))
        if following:
            main = max(following, key=lambda one: graph.nodes[one]["count"])
            graph.nodes[main]["branch"] = data["branch"]


def plot_prefix_tree(graph: nx.DiGraph, name: str) -> Plot:
    """The tree as boxes from left to right: colour is the mean reward, the number how many traces went there."""
    folded = _folded(graph)
    chart, static = _chart(folded, name, static=False), _chart(folded, name, static=True)
    rows = [
        ["· " * min(data["depth"], 8) + data["label"], str(data["count"]), number(data["reward"]),
         str(data["scored"]), str(data["errors"])]
        for _, data in _ordered(graph)
    ]  # fmt: skip
    table = columns(["message", "traces", "mean reward", "scored", "errors"], rows, widest=60)
    return chart_plot(chart, lines([chart.title], table, rest="run.graph()"), static=static)


def _ordered(graph: nx.DiGraph) -> list[tuple[str, dict[str, Any]]]:
    """Depth first, the most travelled way first."""
    found = []
    stack = sorted((n for n in graph if not graph.in_degree(n)), key=lambda n: graph.nodes[n]["count"])
    while stack:
        node = stack.pop()
        found.append((node, graph.nodes[node]))
        stack += sorted(graph.successors(node), key=lambda n: graph.nodes[n]["count"])
    return found


def _folded(graph: nx.DiGraph) -> nx.DiGraph:
    """Messages that the same traces hold one after the other as one node: `texts` are all of them."""
    import networkx as nx

    made = nx.DiGraph(**graph.graph)
    first: dict[str, str] = {}
    for node, data in graph.nodes(data=True):
        above = next(iter(graph.predecessors(node)), None)
        said = f"{data['role'][:1]}: {data['text']}"
        if (
            above is not None
            and graph.out_degree(above) == 1
            and graph.nodes[above]["count"] == data["count"]
        ):
            first[node] = first[above]
            made.nodes[first[node]]["texts"].append(said)
            continue
        first[node] = node
        made.add_node(node, **data, texts=[said])
        if above is not None:
            made.add_edge(first[above], node, kind="continuation", ancestry=True)
    return made


def _chart(graph: nx.DiGraph, name: str, *, static: bool) -> Chart:
    theme = current_theme()
    places = boxes(graph, dict.fromkeys(graph, 1.0), height=0.74, gap=0.26, in_turn=False)
    shown = [n for n, box in places.items() if not static or (box.x < _COLUMNS * _STEP and box.y < _ROWS)]
    rewards = [data["reward"] for _, data in graph.nodes(data=True) if data["reward"] is not None]
    scale = Scale("mean reward", min([0.0, *rewards]), max([1.0, *rewards]))
    right = max((places[node].x + 1 for node in shown), default=1.0)
    step = _WIDE if static else _SCREEN * _STEP / max(3.0, right)
    letters = int((step / _STEP - 8) / 6.5)
    layers: list[Layer] = edges(graph, {node: places[node] for node in shown}, theme)
    for scored in (True, False):
        group = [node for node in shown if (graph.nodes[node]["reward"] is not None) is scored]
        if not group:
            continue
        layers.append(
            Rects(
                x=[places[node].x for node in group],
                y=[places[node].y for node in group],
                width=[1.0] * len(group),
                height=0.74,
                color=[
                    scale.color(graph.nodes[node]["reward"], theme) if scored else theme.muted
                    for node in group
                ],
                filled=scored,
                text=[_inside(graph.nodes[node], letters) for node in group],
                hover=[_hover(graph.nodes[node]) for node in group],
                name="" if scored else "no reward known",
                ids=group,
            )
        )
    low = max((places[node].y + 1 for node in shown), default=1.0)
    note = (
        "The number is how many traces went there, +n how many messages follow that they share. "
        "s system, u user, a assistant, t tool."
    )
    if len(shown) < len(graph):
        note += f" {len(shown)} of {len(graph)} boxes drawn; plot.figure has all."
    return Chart(
        title=f"{name}: {graph.graph['traces']} traces of {one_line(graph.graph['name'], 40)}",
        panels=[
            Panel(
                x=Axis(title="messages from left to right", range=(-0.1, max(3.0, right) + 0.1), hidden=True),
                y=Axis(range=(-0.2, low), reverse=True, hidden=True),
                layers=layers,
            )
        ],
        width=max(3.0, right) * _WIDE / _STEP,
        height=low * _LANE + 10,
        note=note,
        scale=scale,
        theme=theme,
    )


def _inside(data: dict[str, Any], letters: int) -> str:
    """What a box says, as far as it has room."""
    more = f" +{len(data['texts']) - 1}" if len(data["texts"]) > 1 else ""
    room = letters - len(more)
    text = f"{data['count']} {data['texts'][0]}"
    return one_line(text, room) + more if room > 6 else str(data["count"]) if letters > 1 else ""


def _hover(data: dict[str, Any]) -> str:
    reward = f"mean reward {number(data['reward'])} of {data['scored']}" if data["scored"] else "no reward"
    errors = f", {data['errors']} errors" if data["errors"] else ""
    return f"{data['count']} traces, {reward}{errors}\n" + "\n".join(text[:100] for text in data["texts"][:8])
