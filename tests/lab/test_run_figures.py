"""Figures of runs: their numbers are those of the frames, their twins hold in any notebook."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.bigrun import write_run
from support.html_rules import check_bundle
from support.views import HOSTILE

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.lab.cost_figures import plot_against
from vfnb.lab.figures import Plot
from vfnb.lab.intervals import estimate
from vfnb.lab.learning_figure import plot_blocks
from vfnb.lab.reward_figures import plot_pass_at_k, plot_rewards, plot_tasks
from vfnb.lab.rows import Row

KINDS = ("rewards", "tasks", "pass_at_k", "against", "time", "learning", "graph")


class Sum(vf.Task):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.startswith("right"))

    @vf.reward(weight=0.5)
    async def short(self, trace: vf.Trace) -> float:
        return 1 / len(trace.last_reply)


class Sums(vf.Taskset):
    def load(self) -> list[Sum]:
        names = ["one", "two", f"three {HOSTILE}"]
        return [Sum(vf.TaskData(idx=idx, name=name, prompt=f"task {idx}")) for idx, name in enumerate(names)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vf.Run:
    """3 tasks by 4 rollouts: some right, some wrong, one in error."""
    said: list[int] = []

    def answer(messages: list[vf.Message]) -> str:
        said.append(len(said))
        if len(said) == 6:
            raise vf.errors.UpstreamServerError("overloaded; try later")
        return ("right" if len(said) % 3 else "wrong") + "!" * (len(said) % 4)

    folder = tmp_path_factory.mktemp("figures") / "sums"
    made = vf.evaluate(Sums(), model=vf.Scripted(answer), rollouts=4, concurrency=1, dir=folder)
    made.wait(quiet=True)
    return vf.load(folder)


def parts(plot: Plot, kind: str, **wanted: Any) -> list[Any]:
    """The traces of a figure of one type with these attributes."""
    return [
        part
        for part in plot.figure.data
        if part.type == kind and all(getattr(part, name) == value for name, value in wanted.items())
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_figure_has_twins_in_both_themes(run: vf.Run, kind: str) -> None:
    papers = set()
    for name in ("light", "dark"):
        vf.theme(name)
        try:
            plot = run.plot(kind)
        finally:
            vf.theme("light")
        page = check_bundle(plot._repr_mimebundle_())
        assert len(page.images) == 1
        papers.add(plot.figure.layout.paper_bgcolor)
        assert f'fill="{plot.figure.layout.paper_bgcolor}"' in plot.svg
        assert "<script" not in plot.svg and "<script" not in plot.figure.to_json()
    assert papers == {"#ffffff", "#15181c"}


def test_histograms_count_every_rollout_once_and_errors_apart(run: vf.Run) -> None:
    plot = run.plot("rewards")
    rewards = run.rewards
    titles = [note.text for note in plot.figure.layout.annotations[:3]]
    assert [title.split(":")[0] for title in titles] == [
        "reward (weighted sum)", "correct, weight 1.0", "short, weight 0.5",
    ]  # fmt: skip
    assert f"mean {rewards['reward'].mean():.3g}" in titles[0]
    for axis, name in (("y", "reward"), ("y2", "correct"), ("y3", "short")):
        values, missing = [
            [part for part in parts(plot, "bar", yaxis=axis) if (part.marker.pattern.shape == "/") is hatched]
            for hatched in (False, True)
        ]
        assert sum(values[0].y) == rewards[name].notna().sum() == 11
        assert [list(part.y) for part in missing] == [[1]]
    discrete = parts(plot, "bar", yaxis="y2")[0]
    assert dict(zip(discrete.x, discrete.y, strict=True)) == rewards["correct"].value_counts().to_dict()


def test_the_heat_map_is_the_table_of_rewards(run: vf.Run) -> None:
    plot = run.plot("tasks")
    (heat,) = parts(plot, "heatmap")
    table = run.rewards.pivot(index="task", columns="rollout", values="reward")
    order = list(dict.fromkeys(run.frame("traces").sort_values("task_idx")["task"]))
    expected = table.loc[order].to_numpy()
    assert np.allclose(np.array(heat.z, float), expected, equal_nan=True)
    signs = [sign for row in heat.text for sign in row]
    assert signs.count("✗") == 1
    failed = next(text for row in heat.hovertext for text in row if "overloaded" in text)
    assert "UpstreamServerError" in failed


def test_pass_at_k_is_that_of_the_summary(run: vf.Run) -> None:
    plot = run.plot("pass_at_k", threshold=1.0)
    (curve,) = parts(plot, "scatter")
    drawn = dict(zip(curve.x, curve.y, strict=True))
    for one in run.summary.pass_at_k:
        assert drawn[one.k] == pytest.approx(one.value)
    assert "at least 1.0" in plot.svg.replace("\n", " ") or "at least" in plot.svg
    assert drawn == {k: pytest.approx(v) for k, v in drawn.items() if 0 <= v <= 1}
    easy = run.plot("pass_at_k", threshold=0.0)
    assert set(parts(easy, "scatter")[0].y) == {1.0}


@pytest.mark.parametrize(
    ("x", "column"), [("tokens", "tokens_out"), ("turns", "turns"), ("seconds", "time_s")]
)
def test_marks_stand_where_the_frame_says(run: vf.Run, x: str, column: str) -> None:
    plot = run.plot("against", x=x)
    traces = run.frame("traces").set_index("trace")
    (marks,) = parts(plot, "scatter", name="rollout")
    assert sorted(marks.customdata) == sorted(traces.index[traces["reward"].notna()])
    for trace, at, reward in zip(marks.customdata, marks.x, marks.y, strict=True):
        assert (at, reward) == pytest.approx((traces.loc[trace, column], traces.loc[trace, "reward"]))
    (lost,) = parts(plot, "scatter", name="error or no reward")
    assert all(y < 0 for y in lost.y)
    (means,) = parts(plot, "scatter", name="mean of a group, with its interval")
    assert len(means.x) <= 8
    with pytest.raises(ConfigError, match="no rollout of sums has a known cost"):
        run.plot("against", x="cost")


def test_time_adds_up_to_the_agent_stage(run: vf.Run) -> None:
    plot = run.plot("time")
    bars = {part.name: part for part in parts(plot, "bar")}
    assert list(bars) == ["boot", "setup", "model", "tools", "harness", "finalize", "scoring"]
    traces = run.frame("traces")
    agent = sum(bars[name].x[0] for name in ("model", "tools", "harness"))
    assert agent == pytest.approx(traces["agent_s"].mean())
    assert bars["scoring"].x[0] == pytest.approx(traces["scoring_s"].fillna(0).mean())
    ends = [low + value for low, value in zip(bars["scoring"].base, bars["scoring"].x, strict=True)]
    assert ends[0] == pytest.approx(sum(part.x[0] for part in bars.values()))


def test_time_between_a_request_for_tools_and_the_next_call_is_of_the_tools(tmp_path: Path) -> None:
    def answer(messages: list[vf.Message]) -> vf.AssistantMessage:
        if messages[-1].role != "tool":
            call = vf.ToolCall(id="a", name="slow", arguments="{}")
            return vf.AssistantMessage(content="", tool_calls=[call])
        return vf.AssistantMessage(content="done")

    class Slow(vf.Toolset):
        @vf.tool
        def slow(self) -> str:
            """Takes its time."""
            time.sleep(0.3)
            return "at last"

    class Task(vf.Task):
        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
            return [Slow(vf.ToolsetConfig())]

        @vf.reward
        async def one(self, trace: vf.Trace) -> float:
            return 1.0

    tasks = [Task(vf.TaskData(idx=0, prompt="go"))]
    run = vf.evaluate(tasks, model=vf.Scripted(answer), dir=tmp_path).wait(quiet=True)
    assert run.summary.ok == 1, run
    bars = {part.name: part.x[0] for part in parts(run.plot("time"), "bar")}
    assert 0.3 <= bars["tools"] < 1.0
    assert bars["model"] + bars["tools"] + bars["harness"] == pytest.approx(run.frame("traces")["agent_s"][0])


def test_learning_over_runs_has_the_means_of_their_summaries(run: vf.Run) -> None:
    plot = vf.plot_learning({"new": [run, run], "old": {0: run, 50: run}})
    check_bundle(plot._repr_mimebundle_())
    means = [part for part in parts(plot, "scatter") if part.yaxis == "y"]
    assert [(part.name, list(part.x)) for part in means] == [("new", [0, 1]), ("old", [0, 50])]
    assert set(means[0].y) == {run.summary.reward.mean}
    shares = [part for part in parts(plot, "scatter") if part.yaxis == "y2"]
    assert shares[0].y[0] == pytest.approx(100 / 12)
    with pytest.raises(ConfigError, match="no runs to draw"):
        vf.plot_learning([])
    with pytest.raises(ConfigError, match="'first' is no number of a step"):
        vf.plot_learning({"first": run})
    with pytest.raises(ConfigError, match="step 0 is a str; give runs"):
        vf.plot_learning(["runs/sums"])


def test_wrong_kinds_and_options_name_the_right_ones(run: vf.Run) -> None:
    with pytest.raises(ConfigError, match="no kind 'reward'; did you mean 'rewards'"):
        run.plot("reward")
    with pytest.raises(ConfigError, match="no option 'k'; there are: threshold"):
        run.plot("pass_at_k", k=3)
    with pytest.raises(ConfigError, match="x='time' is none of tokens, turns, cost, seconds"):
        run.plot("against", x="time")
    with pytest.raises(ConfigError, match="no theme 'blue'; there are light, dark"):
        vf.theme("blue")


def scored(reward: float, task: str = "a", **fields: Any) -> Row:
    return Row(task=task, reward=reward, end_state="completed", **({"rewards": {"r": reward}} | fields))


ROWS: dict[str, list[Row]] = {
    "empty": [],
    "one task": [scored(float(i % 2), rollout=i) for i in range(5)],
    "one rollout": [scored(0.5, tokens_out=3)],
    "all errors": [Row(task=f"t{i}", end_state="error", error="X", tokens_out=2) for i in range(6)],
    "nan": [scored(float("nan"), rollout=i, rewards={"r": None}) for i in range(3)],
    "running": [Row(task="a", rollout=i) for i in range(3)],
    "equal": [scored(7.0, f"t{i}", tokens_out=5) for i in range(30)],
    "wide": [scored((-10.0) ** (i % 9), f"t{i}", rewards={"r": 1e-9 * i}, tokens_out=i) for i in range(90)],
    "close": [scored(value, f"t{value}") for value in (0.0, 0.999, 1.0, 1.0)],
    "tiny": [scored(1e-300 * i, f"t{i}", tokens_out=1) for i in range(20)],
    "huge": [scored(1e300 * i, f"t{i}", tokens_out=1) for i in range(20)],
    "hostile": [scored(1.0, HOSTILE, name=HOSTILE, trace=HOSTILE, rewards={HOSTILE: 1.0}, tokens_out=1)],
}


@pytest.mark.parametrize("name", ROWS)
def test_odd_runs_are_drawn(name: str) -> None:
    rows = ROWS[name]
    plots = [
        plot_rewards(rows, name),
        plot_tasks(rows, name),
        plot_pass_at_k(rows, name),
        plot_blocks(rows, name),
    ]
    if not rows or any(row.tokens_out for row in rows):
        plots.append(plot_against(rows, name))
    for plot in plots:
        check_bundle(plot._repr_mimebundle_())
        assert "nan" not in plot.svg.lower().replace("nan:", "")
    if name == "all errors":
        (bars,) = [part for part in parts(plots[0], "bar") if part.marker.pattern.shape]
        assert list(bars.y) == [6]
    if name == "nan":
        assert "no value 3" in plots[0].text


def test_ten_thousand_rollouts_are_drawn_in_bounds_and_in_time() -> None:
    rng = np.random.default_rng(0)
    rows = [
        Row(
            task=f"t{index // 8}",
            rollout=index % 8,
            trace=f"{index:032x}",
            end_state="error",
            tokens_out=index,
        )
        if index % 11 == 0
        else scored(
            float(rng.random()), f"t{index // 8}", rollout=index % 8, trace=f"{index:032x}", tokens_out=index
        )
        for index in range(10_000)
    ]
    start = time.process_time()
    for draw in (plot_rewards, plot_tasks, plot_pass_at_k, plot_against, plot_blocks):
        check_bundle(draw(rows, "big")._repr_mimebundle_())
    assert time.process_time() - start < 20
    means = parts(plot_against(rows, "big"), "scatter", name="mean of a group, with its interval")[0]
    assert np.mean(means.y) == pytest.approx(
        estimate([r.reward for r in rows if r.reward is not None]).mean, abs=0.01
    )


@pytest.mark.soak
def test_a_run_of_ten_thousand_traces_is_drawn(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 10_000, 20))
    run = vf.load(tmp_path)
    for kind in KINDS:
        start = time.process_time()
        check_bundle(run.plot(kind)._repr_mimebundle_())
        assert time.process_time() - start < 30
