"""The numbers of a study by its axes: values, figure, static drawing, comparisons of groups."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from support.addition import add, taskset
from support.html_rules import check_bundle

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.lab.intervals import estimate


class Graded(vf.Task[vf.TaskData]):
    @vf.reward
    def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == "yes")

    @vf.metric
    def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply or ""))


@vf.harness
async def asks(session: Any, task: Any) -> str:
    """Right on tasks below a bound that grows with the temperature, on every second rollout if it is above."""
    heat = session.sampling.temperature
    right = task.data.idx < 2 + 3 * heat or (heat and session.trace.rollout % 2)
    return "yes" if right else "no, " * task.data.idx


@vf.harness
async def never(session: Any, task: Any) -> str:
    return "no"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> vf.Study:
    tasks = [Graded(vf.TaskData(idx=i, prompt=f"{i}?")) for i in range(8)]
    return vf.study(
        tasks,
        model=vf.Scripted(add),
        harness=[asks, never],
        axes={"sampling.temperature": [1.0, 0.0, 0.5], "limits.max_turns": {"few": 2, "many": 9}},
        rollouts=4,
        dir=tmp_path_factory.mktemp("study"),
    ).wait(quiet=True)


def test_a_figure_has_the_numbers_of_the_frame(study: vf.Study) -> None:
    plot = study.plot(x="temperature", color="harness", facet="max_turns")
    figure = plot.figure
    assert [note.text for note in figure.layout.annotations][:2] == ["few", "many"]
    frame = study.frame()
    for name in ("asks", "never"):
        drawn = next(part for part in figure.data if part.name == name and "lines" in part.mode)
        assert list(drawn.x) == pytest.approx([0.0, 0.5, 1.0], abs=0.02)  # numbers, in order, to scale
        for heat, mean, up, down in zip(
            (0.0, 0.5, 1.0), drawn.y, drawn.error_y.array, drawn.error_y.arrayminus, strict=True
        ):
            part = frame[(frame.harness == name) & (frame.temperature == heat) & (frame.max_turns == "few")]
            wanted = estimate(list(part.reward), list(part.task))
            assert (mean, mean + up, mean - down) == pytest.approx((wanted.mean, wanted.high, wanted.low))
    assert "averaged" not in plot.text and "paired" in plot.text


def test_axes_that_are_left_out_are_averaged_over_and_it_is_said(study: vf.Study) -> None:
    plot = study.plot(x="harness")
    assert "averaged over temperature, max_turns" in plot.text and "averaged over" in plot.html
    frame = study.frame()
    mean = frame[frame.harness == "asks"].reward.mean()
    assert list(plot.figure.data[-1].y) == pytest.approx([mean, 0.0])
    assert list(plot.figure.layout.xaxis.ticktext) == ["asks", "never"]


def test_a_grid_lays_itself_out_and_words_stand_beside_each_other(study: vf.Study) -> None:
    assert study.plot().title == "reward by temperature, harness, max_turns"
    plot = study.plot("length", x="max_turns", color="temperature")
    xs = [part.x[0] for part in plot.figure.data if part.showlegend is not False]
    assert len(set(xs)) == 3
    assert study.plot(x="setting").title == "reward by setting"


def test_the_drawing_and_the_twins_hold_the_rules(study: vf.Study, tmp_path: Path) -> None:
    for plot in (study.plot(), study.plot("pass@2", x="setting"), study.plot("tokens_out", x="temperature")):
        check_bundle(plot._repr_mimebundle_())
        root = ET.fromstring(plot.svg)
        width, height = (float(root.attrib[side]) for side in ("width", "height"))
        assert width > 300 and height > 200
    assert study.plot().save(tmp_path / "a.svg").exists()


def test_pass_at_k_is_over_tasks(study: vf.Study) -> None:
    found = study.compare(
        {"temperature": 0.0, "harness": "asks"}, {"temperature": 0.5, "harness": "asks"}, y="pass@2"
    )
    assert found[0].tasks == 8 and found[0].mean_a == pytest.approx(2 / 8)
    # tasks 0 to 3 always, the others on two of four rollouts: 1 - C(2, 2) / C(4, 2)
    assert found[0].mean_b == pytest.approx((4 + 4 * 5 / 6) / 8)
    single = study.compare(y="pass@5")
    assert all(item.tasks == 0 for item in single)


def test_groups_of_settings_are_compared_on_their_means(study: vf.Study) -> None:
    found = study.compare({"harness": "never"}, {"harness": "asks"})
    frame = study.frame()
    assert found[0].a == "harness=never" and found[0].difference == pytest.approx(
        frame[frame.harness == "asks"].reward.mean()
    )
    three = study.compare(
        0, [{"harness": "never"}, "harness=asks, temperature=0.5, max_turns=few"], correction="bh"
    )
    assert [item.b for item in three] == ["harness=never", "harness=asks, temperature=0.5, max_turns=few"]
    assert "p (BH)" in str(three)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.plot("rewrd"), "y='rewrd' is no number of these rollouts; did you mean 'reward'"),
        (
            lambda s: s.plot(x="temprature"),
            "x='temprature' is no axis of this study; did you mean 'temperature'",
        ),
        (lambda s: s.plot(x="harness", color="setting"), "can be told apart"),
        (lambda s: s.compare("harness=ask"), "there is no setting 'harness=ask'"),
        (lambda s: s.compare(99), "there is no setting number 99; there are 12"),
        (lambda s: s.compare({"heat": 1}), "'heat' is no axis of this study"),
        (lambda s: s.compare({"harness": "x"}), "no setting has harness=x"),
        (lambda s: s.compare(0, {"harness": "asks"}), "share the setting"),
        (lambda s: s.compare(correction="bonferroni"), "correction='bonferroni': there are: holm, bh, none"),
        (lambda s: s.compare(level=95), "level=95 must lie between 0 and 1"),
        (lambda s: s.table("rewrd"), "did you mean 'reward'"),
    ],
)
def test_wrong_names_are_told_the_right_ones(study: vf.Study, call: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call(study)


def test_the_table_tells_each_setting_against_the_first(study: vf.Study) -> None:
    table = study.table()
    assert table.head[:4] == ("harness", "temperature", "max_turns", "reward") and len(table.rows) == 12
    assert "corrected for 11 comparisons (Holm)" in table.notes[0]
    assert table.latex.count(r"\\") == 13 and table.markdown.count("\n| ") == 13
    check_bundle(table._repr_mimebundle_())


def test_tasks_of_an_axis_that_changes_them_are_paired_by_position(tmp_path: Path) -> None:
    class Config(vf.TasksetConfig):
        politely: bool = False

    class Asked(vf.Taskset[Graded, Config]):
        def load(self) -> list[Graded]:
            end = ", please" if self.config.politely else ""
            return [Graded(vf.TaskData(prompt=f"{i}{end}?")) for i in range(8)]

    study = vf.study(
        Asked(),
        model=vf.Scripted(lambda messages: "yes" if "please" in messages[-1].text else "no"),
        axes={"taskset.politely": [False, True]},
        dir=tmp_path,
    ).wait(quiet=True)
    assert study.settings.politely.dtype == "boolean"
    found = study.compare()[0]
    assert (found.tasks, found.difference, found.test) == (8, 1.0, "mcnemar")
    assert "paired by position" in study.plot().text


def test_harnesses_of_a_comparison_are_compared_likewise(tmp_path: Path) -> None:
    tasks = taskset(8)
    both = vf.compare(
        tasks, harnesses={"asks": "null", "never": never}, model=vf.Scripted(add), dir=tmp_path / "c"
    ).wait(quiet=True)
    found = both.compare()
    assert (found[0].a, found[0].b, found[0].difference, found[0].tasks) == ("asks", "never", -1.0, 8)
