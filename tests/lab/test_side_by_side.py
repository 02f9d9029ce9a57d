"""Traces of one task beside each other."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.html_rules import check_bundle
from support.talks import chain, family

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.lab.trace_figures import plot_traces


def test_each_trace_has_its_own_axes_and_the_legend_names_a_role_once() -> None:
    traces = {"a <b>": chain(4), "b": family()}
    plot = plot_traces(traces)
    figure = plot.figure
    assert [note.text for note in figure.layout.annotations] == ["a &lt;b&gt;", "b"]
    points = [
        sum(
            len(part.customdata) for part in figure.data if part.customdata is not None and part.xaxis == axis
        )
        for axis in ("x", "x2")
    ]
    assert points == [len(trace.nodes) for trace in traces.values()]
    listed = [part.name for part in figure.data if part.showlegend]
    assert len(listed) == len(set(listed))
    check_bundle(plot._repr_mimebundle_())
    assert "b: Trace" in plot.text


def test_the_drawing_is_one_picture_that_holds_all() -> None:
    for number, beside in ((2, True), (8, False)):
        plot = plot_traces({f"h{index}": chain(4) for index in range(number)})
        root = ET.fromstring(plot.svg)
        panels = [part.attrib["transform"] for part in root if part.tag.endswith("}g")]
        places = [tuple(map(float, place[len("translate(") : -1].split())) for place in panels]
        assert len(places) == number
        assert len({x for x, _ in places}) == (number if beside else 1)
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        assert all(0 < x < width and 0 < y < height for x, y in places)
        said = [part.text for part in root.iter() if part.tag.endswith("text")]
        assert {f"h{index}" for index in range(number)} <= set(said)


def test_nothing_and_too_much_are_refused() -> None:
    for number in (0, 9):
        with pytest.raises(ConfigError, match=f"{number} traces to draw; give 1 to 8"):
            plot_traces({f"h{index}": chain(1) for index in range(number)})


def test_a_comparison_draws_one_task_of_all_its_runs(tmp_path: Path) -> None:
    @vf.harness
    async def twice(session: vf.HarnessSession, task: vf.Task) -> str:
        draft = await session.complete(task.data.prompt or "")
        return (await session.complete([*draft.messages, vf.UserMessage(content="Check it.")])).text

    tasks = [vf.Task(vf.TaskData(idx=index, prompt=f"task {index}")) for index in range(2)]
    both = vf.compare(
        tasks,
        harnesses={"null": "null", "twice": twice},
        model=vf.Scripted(lambda messages: "x"),
        dir=tmp_path,
    )
    both.wait(quiet=True)
    plot = both.plot(task=1)
    assert plot.title == "null · twice"
    assert [len(run.traces[1].nodes) for run in both.runs.values()] == [2, 4]
    assert "2 messages" in plot.text and "4 messages" in plot.text
    with pytest.raises(ConfigError, match="task 5 has no sample 0; there are 2 tasks"):
        both.plot(task=5)
