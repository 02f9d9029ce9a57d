"""Scoring stored rollouts anew: versions beside each other, no model, no runtime, nothing lost."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.bigrun import write_run
from support.html_rules import check_bundle

import vfnb as vf
from vfnb.errors import ConfigError, HookError, RunNotFinished, StoreError, TasksetError
from vfnb.lab.rescored import Rescored


class Data(vf.TaskData):
    answer: str


class Sum(vf.Task[Data]):
    @vf.reward
    def exact(self, task: Data, trace: vf.Trace) -> float:
        return float(trace.last_reply == task.answer)

    @vf.metric
    def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))

    @vf.reward(weight=0.5)
    async def short(self, trace: vf.Trace) -> float:
        return 1 / len(trace.last_reply)


class Sums(vf.Taskset[Sum]):
    def load(self) -> list[Sum]:
        return [Sum(Data(prompt=f"What is {i} + {i}?", answer=str(2 * i))) for i in range(6)]


def answers(messages: vf.Messages, tools: Any) -> str:
    """Right for even numbers, long for odd ones."""
    number = int(messages[-1].text.split()[2])
    return str(2 * number) if number % 2 == 0 else "I do not know"


def go(tmp_path: Path, taskset: Any = None, **options: Any) -> vf.Run:
    given: dict[str, Any] = {"model": vf.Scripted(answers), "rollouts": 2, "dir": tmp_path / "run"} | options
    return vf.evaluate(taskset or Sums(), **given).wait(quiet=True)


@pytest.fixture
def run(tmp_path: Path) -> vf.Run:
    return go(tmp_path)


def concise(trace: vf.Trace) -> float:
    return 1.0 / (1 + len(trace.last_reply))


def test_one_more_reward_keeps_the_others(run: vf.Run) -> None:
    before = run.rewards
    made = run.rescore([concise], label="length matters")
    assert isinstance(made, Rescored)
    assert (made.version, made.base, made.scored, made.kept, made.errors) == (1, 0, 12, 0, {})
    after = run.rewards
    assert list(after.columns[2:5]) == ["exact", "short", "concise"]
    pd.testing.assert_frame_equal(after[["exact", "short", "length"]], before[["exact", "short", "length"]])
    expected = [1 / (1 + len(trace.last_reply)) for trace in run.traces]
    assert list(after.loc[[trace.id for trace in run.traces], "concise"]) == pytest.approx(expected)
    assert list(after["reward"] - before["reward"]) == pytest.approx(list(after["concise"]))
    assert run.summary.reward.mean == pytest.approx(after["reward"].mean())
    assert "concise" in str(run)


def test_the_frame_has_old_new_and_change(run: vf.Run) -> None:
    made = run.rescore({"brief": concise})
    table = made.frame()
    columns = [
        "trace",
        "task",
        "rollout",
        "old",
        "new",
        "change",
        "error",
        "brief_old",
        "brief_new",
        "brief_change",
    ]
    assert list(table.columns) == columns
    assert list(table["change"]) == pytest.approx(list(table["brief_new"]))
    assert table["brief_old"].isna().all()
    assert table["error"].isna().all()
    again = run.rescore({"brief": lambda trace: 0.0}).frame()
    assert list(again["change"]) == pytest.approx([-value for value in table["brief_new"]])


def test_versions_are_listed_and_can_be_shown(run: vf.Run) -> None:
    run.rescore([concise], label="length matters")
    run.rescore(weights={"exact": 0.25})
    listed = run.scores
    assert list(listed["version"]) == [0, 1, 2]
    assert list(listed["kind"]) == ["live", "rescore", "rescore"]
    assert list(listed["label"]) == ["", "length matters", "exact x 0.25"]
    assert list(listed["traces"]) == [12, 12, 12]
    assert listed["weights"][2] == '{"exact": 0.25}'
    old = run.use(0)
    assert (old.version, run.version) == (0, 2)
    assert "concise" not in old.rewards
    assert list(old.traces[0].rewards) == ["exact", "short"]
    assert list(run.traces[0].rewards) == ["exact", "short", "concise"]
    assert run.traces[0].rewards["exact"].weight == 0.25
    assert old.frame("traces")["reward"].mean() == pytest.approx(old.rewards["reward"].mean())
    assert old.summary.reward.mean == pytest.approx(listed["reward"][0])
    assert run.summary.reward.mean == pytest.approx(listed["reward"][2])
    assert old.tasks["mean"].mean() == pytest.approx(listed["reward"][0])
    from_old = old.rescore(weights={"short": 0.0})
    assert (from_old.version, from_old.base) == (3, 0)
    assert "concise" not in run.rewards
    with pytest.raises(ConfigError, match=r"no score version 9; there are 0, 1, 2, 3"):
        run.use(9)


def test_exports_and_samples_use_the_chosen_version(run: vf.Run, tmp_path: Path) -> None:
    run.rescore([lambda trace: 5.0], weights={"exact": 0.0, "short": 0.0})
    for version, mean in ((0, run.use(0).rewards["reward"].mean()), (1, 5.0)):
        folder = tmp_path / f"out{version}"
        run.use(version).export("verifiers", folder)
        loaded = [vf.Trace.model_validate(trace.model_dump()) for trace in run.use(version).traces]
        assert sum(trace.reward or 0 for trace in loaded) / 12 == pytest.approx(mean)
    texts = [next((tmp_path / f"out{v}").glob("**/*.jsonl")).read_text() for v in (0, 1)]
    assert texts[0] != texts[1]


def test_weights_alone(run: vf.Run) -> None:
    before = run.rewards
    made = run.rescore(weights={"exact": 2, "short": 0})
    assert list(run.rewards["reward"]) == pytest.approx(list(2 * before["exact"]))
    assert made.touched == ("exact", "short")
    assert list(run.rewards["short"]) == list(before["short"])
    assert made.reward.won == 0
    same = run.rescore(weights={"exact": 2})
    assert list(same.frame()["change"]) == [0.0] * 12
    with pytest.raises(ConfigError, match="no reward 'exakt'; did you mean 'exact'"):
        run.rescore(weights={"exakt": 1})
    with pytest.raises(ConfigError, match="it is a metric"):
        run.rescore(weights={"length": 1})
    with pytest.raises(ConfigError, match="finite number"):
        run.rescore(weights={"exact": float("nan")})


def test_a_subset_leaves_the_rest(run: vf.Run) -> None:
    before = run.rewards
    made = run.rescore([concise], where="reward < 0.5")
    few = before["reward"] < 0.5
    assert (made.scored, made.kept) == (int(few.sum()), int((~few).sum()))
    after = run.rewards
    assert list(after["concise"].notna()) == list(few)
    assert list(after.loc[~few, "reward"]) == list(before.loc[~few, "reward"])
    weighed = run.use(0).rescore(weights={"exact": 3}, where="rollout = 1")
    assert (weighed.scored, weighed.kept) == (6, 6)
    changed = weighed.frame().set_index("trace")["change"]
    assert list(changed) == list(before["exact"] * 2 * (before["rollout"] == 1))
    with pytest.raises(ConfigError, match="chooses no trace"):
        run.rescore([concise], where="turns > 99")
    with pytest.raises(ConfigError, match="no column 'rewrd'"):
        run.rescore([concise], where="rewrd > 1")


def test_a_task_class_of_a_later_cell_scores_everything(run: vf.Run) -> None:
    class Strict(vf.Task[Data]):
        @vf.reward
        async def lenient(self, task: Data, trace: vf.Trace) -> float:
            return float(task.answer in trace.last_reply or isinstance(self.data, Data))

    made = run.rescore(task=Strict)
    assert list(run.rewards.columns) == ["task", "rollout", "lenient", "reward", "ok", "stop", "error"]
    assert set(run.rewards["lenient"]) == {1.0}
    assert made.frame()["new"].mean() == 1.0
    run.use(0).rescore([Sum.exact], task=Sums)  # a method alone: the others keep their values
    assert list(run.rewards["exact"]) == list(run.use(0).rewards["exact"])
    assert "length" in run.rewards
    with pytest.raises(ConfigError, match="exact is a method of Sum; give that class too: task=Sum"):
        run.rescore([Sum.exact])


def test_data_that_does_not_fit_is_refused_at_the_start(run: vf.Run) -> None:
    class Other(vf.TaskData):
        target: int

    class Wrong(vf.Task[Other]):
        @vf.reward
        def always(self) -> float:
            return 1.0

    with pytest.raises(TasksetError, match="does not fit Other"):
        run.rescore(task=Wrong)
    assert run.version == 0


def test_functions_that_need_a_runtime_are_refused(run: vf.Run) -> None:
    async def files(trace: vf.Trace, runtime: vf.Runtime) -> float:
        return 1.0

    with pytest.raises(ConfigError, match=r"gone, and these take `runtime`: files \(12 traces\)"):
        run.rescore([files, concise])
    with pytest.raises(ConfigError, match=r"files \(6 traces\)"):
        run.rescore([files], where="rollout = 0")
    assert run.version == 0


def test_errors_are_errors(run: vf.Run) -> None:
    def picky(trace: vf.Trace) -> float:
        if trace.rollout == 1:
            raise ValueError("not this one")
        return 1.0

    def absent(trace: vf.Trace) -> Any:
        return None if trace.task.idx == 0 else 2.0

    made = run.rescore([picky, absent, concise])
    assert len(made.errors) == 7
    assert "reward picky raised ValueError: not this one" in set(made.errors.values())
    rewards = run.rewards
    wrong = (rewards["rollout"] == 1) | (rewards["absent"].isna())
    assert list(rewards["reward"].isna()) == list(wrong)
    assert rewards["concise"].notna().all()
    assert set(rewards.loc[wrong, "error"]) == {"ScoringError"}
    assert (rewards["reward"].dropna() > 0).all()
    summary = run.summary
    assert (summary.failed, summary.scored) == (7, 5)
    assert "7 of 12 rollouts failed (not counted as reward 0)" in str(run)
    assert run.scores["errors"][1] == 7
    assert run.use(0).summary.failed == 0
    assert "7 traces could not be scored in full" in str(made)
    assert list(made.frame()["error"].notna()) == list(wrong)


def test_what_failed_in_its_scoring_can_be_mended(tmp_path: Path) -> None:
    class Broken(vf.Task[Data]):
        @vf.reward
        def exact(self, trace: vf.Trace) -> float:
            raise KeyError("oops")

    class Set(vf.Taskset[Broken]):
        def load(self) -> list[Broken]:
            return [Broken(Data(prompt=f"What is {i} + {i}?", answer=str(2 * i))) for i in range(3)]

    run = go(tmp_path, Set(), rollouts=1)
    assert run.summary.failed == 3
    made = run.rescore(task=Sum)
    assert (made.scored, made.reward.only_new) == (3, 3)
    assert (run.summary.failed, run.summary.scored) == (0, 3)
    assert [trace.end_state for trace in run.traces] == ["completed"] * 3
    assert [trace.errors[0].type for trace in run.traces] == ["ScoringError"] * 3  # the history stays
    assert all(trace.reward is not None for trace in run.traces)


def test_rollouts_that_failed_are_told_apart(tmp_path: Path) -> None:
    def sometimes(messages: vf.Messages, tools: Any) -> str:
        if "What is 1" in messages[-1].text:
            raise RuntimeError("no answer")
        return "0"

    run = go(tmp_path, model=vf.Scripted(sometimes), rollouts=1)
    made = run.rescore([concise])
    assert (made.scored, made.left_out) == (5, {"ended as error": 1})
    assert "1 not scored: ended as error" in str(made)
    assert run.summary.failed == 1


def test_scoring_that_a_stop_skips_stays_skipped(tmp_path: Path) -> None:
    class Stopping(Sum):
        @vf.stop(skip_scoring=True)
        def enough(self, trace: vf.Trace) -> bool:
            return trace.task.idx == 0

    class Set(vf.Taskset[Stopping]):
        def load(self) -> list[Stopping]:
            return [Stopping(Data(prompt=f"What is {i} + {i}?", answer=str(2 * i))) for i in range(2)]

    run = go(tmp_path, Set(), rollouts=1)
    made = run.rescore([concise], weights={"exact": 4})
    assert made.left_out == {"a stop or a setting skips their scoring": 1}
    assert run.rewards["reward"].iloc[0] == 0.0
    assert run.summary.skipped == 1


def test_state_and_info_are_there(tmp_path: Path) -> None:
    class Notes(vf.State):
        seen: int = 0

    class Kept(vf.Task[Data, Notes]):
        async def finalize(self, state: Notes, trace: vf.Trace) -> None:
            state.seen = 3
            trace.info["found"] = {"lines": 7}

        @vf.reward
        def plain(self) -> float:
            return 1.0

    class Set(vf.Taskset[Kept]):
        def load(self) -> list[Kept]:
            return [Kept(Data(prompt="What is 1 + 1?", answer="2"))]

    run = go(tmp_path, Set(), rollouts=1)

    def both(trace: vf.Trace, state: Any, task: Any) -> float:
        return float(state.seen + trace.info["found"]["lines"] + len(task.answer))

    run.rescore([both])
    assert run.rewards["both"].iloc[0] == 11.0
    run.rescore({"again": lambda state: float(isinstance(state, Notes))}, task=Kept)
    assert run.rewards["again"].iloc[0] == 1.0


def test_wrong_arguments(run: vf.Run) -> None:
    with pytest.raises(ConfigError, match="there is nothing to do"):
        run.rescore()
    with pytest.raises(ConfigError, match="rewards= takes functions, got 3"):
        run.rescore([3])
    with pytest.raises(ConfigError, match="two of the new scores are called 'concise'"):
        run.rescore([concise, concise])
    with pytest.raises(HookError, match="unknown parameter `trce`"):
        run.rescore({"wrong": lambda trce: 1.0})
    with pytest.raises(ConfigError, match="is no Task or Taskset"):
        run.rescore([concise], task=Data)
    with pytest.raises(ConfigError, match="weights= takes a dict"):
        run.rescore(weights=[1])  # type: ignore[arg-type]
    assert run.version == 0


class Verdict(vf.TaskJudgeConfig):
    id: str = "verdict_of_rescore"


class Opinion(vf.TaskJudge[float, Verdict]):
    prompt = "Is {response} right for {question}?"

    def parse(self, response: vf.JudgeResponse[float]) -> float:
        return float(response.text)


def test_a_judge_asked_several_times(run: vf.Run) -> None:
    counts: dict[str, int] = {}

    async def say(messages: vf.Messages, tools: Any) -> str:  # on one loop: the counts are exact
        text = messages[-1].text
        counts[text] = counts.get(text, 0) + 1
        return str(counts[text] % 2)

    judge = Opinion(client=vf.Scripted(say))
    made = run.rescore(judges=[judge] * 4, where="rollout = 0")
    rewards = run.rewards[run.rewards["rollout"] == 0]
    assert list(rewards["verdict_of_rescore"]) == [0.5] * 6
    assert list(rewards["verdict_of_rescore_se"]) == pytest.approx([0.28867513459481287] * 6)  # s / 2
    assert made.judge_calls == 24
    judges = run.frame("judges")
    assert len(judges) == 24
    assert set(judges["judge"]) == {"verdict_of_rescore"}
    assert "judges: 24 calls" in str(made)
    run.rescore(judges=judge, where="rollout = 0")
    assert len(run.frame("judges")) == 30  # earlier verdicts stay


def test_a_judge_that_gives_no_verdict_now_and_then(run: vf.Run) -> None:
    counts: dict[str, int] = {}

    def say(messages: vf.Messages, tools: Any) -> str:
        text = messages[-1].text
        counts[text] = counts.get(text, 0) + 1
        return "1" if counts[text] % 3 else "hm"  # of three questions about one trace never all

    judge = Opinion(client=vf.Scripted(say))
    made = run.rescore(judges=[judge] * 3)
    assert not made.errors
    assert "12 of 36 answers of judges gave no verdict" in made.notes[0]
    silent = Opinion(client=vf.Scripted(lambda messages, tools: "hm"))
    worse = run.rescore(judges=silent)
    assert len(worse.errors) == 12
    assert "gave no verdict" in next(iter(worse.errors.values()))
    assert run.rewards["reward"].isna().all()


def test_unfinished_runs_are_refused_unless_asked_for(tmp_path: Path) -> None:
    import threading

    release = threading.Event()

    def slow(messages: vf.Messages, tools: Any) -> str:
        if "What is 5" in messages[-1].text:
            release.wait(20)
        return "1"

    run = vf.evaluate(Sums(), model=vf.Scripted(slow), dir=tmp_path / "run")
    try:
        with pytest.raises(RunNotFinished):
            run.rescore([concise])
        while run.frame("runs")["finished"].iloc[0] < 5:
            threading.Event().wait(0.02)
        made = run.rescore([concise], partial=True)
        assert (made.scored, made.left_out) == (5, {"running": 1})
        assert run.rewards["concise"].notna().sum() == 5
    finally:
        release.set()
        run.wait(quiet=True)
    assert run.rewards["reward"].notna().sum() == 6  # the late one is in the newest version too
    assert run.rewards["concise"].notna().sum() == 5


def test_in_a_fresh_process_without_the_taskset(run: vf.Run) -> None:
    code = f"""
import vfnb as vf
run = vf.load({str(run.dir)!r})
def half(trace, task): return 0.5 * (task.answer == trace.last_reply)
run.rescore([half])
assert run.rewards["half"].sum() == 3.0, run.rewards
run.rescore(weights={{"half": 4}})
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=50)
    assert list(run.scores["version"]) == [0, 1, 2]
    assert run.rewards["half"].sum() == 3.0
    assert run.summary.reward.mean == pytest.approx(run.scores["reward"][2])


def test_twins(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 40, 4))
    run = vf.load(tmp_path)

    def sometimes(trace: vf.Trace) -> float:
        if trace.rollout == 3:
            raise ValueError("<script>alert(1)</script>" + "x" * 5000)
        return trace.rewards["correct"].value or 0.0

    made = run.rescore({f"<b>{i}</b>": sometimes for i in range(12)})
    check_bundle(made._repr_mimebundle_())
    text = str(made)
    assert text.startswith(f"Rescored {tmp_path.name} · version 0 → 1")
    assert "10 traces could not be scored in full" in text
    assert "paired over 30 traces, 10 tasks" in text
    assert repr(made).startswith("Rescored(version 0 → 1, reward ")


class Picky(vf.Task[vf.TaskData]):
    @vf.reward
    def a(self, trace: vf.Trace) -> float:
        if self.data.idx == 2:
            raise ValueError("boom")
        return 1.0


def picky(folder: Path) -> vf.Run:
    tasks = [Picky(vf.TaskData(idx=i, prompt=f"Q {i}")) for i in range(4)]
    return vf.evaluate(tasks, model=vf.Scripted(lambda messages: "yes"), dir=folder).wait(quiet=True)


def test_a_failed_scoring_stays_an_error_until_it_is_scored_itself(tmp_path: Path) -> None:
    run = picky(tmp_path / "a")
    run.rescore({"b": lambda trace: 0.5})
    for seen in (run, vf.load(tmp_path / "a"), run.use(0)):
        assert seen.summary.errors[0].count == 1 and "boom" in seen.summary.errors[0].message
        assert (seen.rewards["error"] == "ScoringError").sum() == 1
    mended = run.rescore({"a": lambda trace: 1.0})
    assert not run.summary.errors and run.summary.reward.n == 4 and not mended.errors


def test_wrong_weights_cost_no_scores_and_names_from_dicts_are_right(tmp_path: Path) -> None:
    run = picky(tmp_path / "a")
    made = run.rescore({"b": lambda trace: 0.5}, weights={"typo": 1.0})
    assert "no reward 'typo'" in made.notes[-1] and (run.rewards["b"] == 0.5).all()

    def parts(trace: vf.Trace) -> dict[str, float]:
        return {"style": 0.5}

    weighed = run.rescore([parts], weights={"style": 2.0})
    assert not weighed.notes and run.scores["weights"].iloc[-1] == '{"style": 2.0}'
    with pytest.raises(ConfigError, match="finite"):
        run.rescore(weights={"a": 10**400})


def test_signals_named_as_columns_and_sums_beyond_the_floats(tmp_path: Path) -> None:
    run = picky(tmp_path / "a")
    frame = run.rescore({"reward": lambda trace: 2.0, "task": lambda trace: 3.0}).frame()
    assert set(frame["reward_new"]) == {2.0} and set(frame["task_new"]) == {3.0}
    huge = run.rescore({"big": lambda trace: 1e308}, weights={"big": 1e10})
    assert len(huge.errors) == 3 and "no finite number" in next(iter(huge.errors.values()))
    assert run.summary.reward.mean is None and run.use(huge.version).rewards["big"].max() == 1e308


def test_nothing_is_written_where_the_run_was(tmp_path: Path) -> None:
    run = picky(tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(StoreError):
        run.rescore({"b": lambda trace: 0.5})
    assert not (tmp_path / "a").exists()


def test_the_traces_whose_order_flipped_are_a_table(tmp_path: Path) -> None:
    words = iter(["a", "ccc", "bb", "a", "ccc", "bb"])
    run = go(
        tmp_path, Sums().take(2), model=vf.Scripted(lambda messages: next(words)), rollouts=3, concurrency=1
    )
    assert run.rescore([], weights={"short": 2.0}).flips().empty

    def length(trace: vf.Trace) -> float:
        return float(len(trace.last_reply))

    found = run.rescore([length], weights={"short": 0.0}).flips()
    assert list(found.columns) == ["trace", "task", "rollout", "old", "new", "pairs", "rank_old", "rank_new"]
    assert sorted(found["pairs"]) == [2, 2, 2, 2, 2, 2]
    best = found.set_index("trace").loc[[t.id for t in run.traces if t.last_reply == "ccc"]]
    assert list(best["rank_old"]) == [3.0, 3.0] and list(best["rank_new"]) == [1.0, 1.0]
