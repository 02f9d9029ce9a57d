"""`vf.study`: one taskset under many settings, as one resumable thing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.addition import AdditionTaskset, add, taskset
from support.html_rules import check_bundle
from support.paths import ROOT

import vfnb as vf
from vfnb.errors import ConfigError, StoreError, VfnbError
from vfnb.lab.study_twin import study_bundle


@vf.harness
async def once(session: Any, task: Any) -> str:
    return str((await session.complete(task.data.prompt)).text)


@vf.harness
async def twice(session: Any, task: Any) -> str:
    draft = await session.complete(task.data.prompt)
    return str((await session.complete([*draft.messages, vf.UserMessage(content=task.data.prompt)])).text)


class Counting:
    """A model that counts its calls and knows the setting by what it is asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.client = vf.Scripted(self.answer)

    def answer(self, messages: vf.Messages) -> str:
        self.calls += 1
        return add([messages[-1]])


def studied(tmp_path: Path, **settings: Any) -> vf.Study:
    given: dict[str, Any] = {"model": vf.Scripted(add), "dir": tmp_path / "all"}
    return vf.study(settings.pop("taskset", taskset(3)), **given | settings).wait(quiet=True)


def test_a_grid_is_all_combinations_with_typed_axes(tmp_path: Path) -> None:
    study = studied(
        tmp_path, harness=[once, twice], sampling=[{"temperature": t} for t in (0, 0.7, 1)], rollouts=2
    )
    assert len(study) == 6 and study.complete and study.design == "grid"
    assert study.axes == {"harness": ["harness"], "sampling": ["temperature"]}
    settings = study.settings
    assert list(settings.columns[:3]) == ["setting", "harness", "temperature"]
    assert settings.temperature.dtype == "Float64" and settings.harness.dtype == "string"
    assert list(settings.n) == list(settings.scored) == [6] * 6 and list(settings.reward) == [1.0] * 6
    frame = study.frame()
    assert len(frame) == 36 and frame.attrs["complete"] is True
    assert list(frame[frame.harness == "twice"].turns.unique()) == [2]
    assert frame.groupby(["harness", "temperature", "task"]).size().eq(2).all()
    assert study["harness=once, temperature=0.7"].config["sampling"] == {"temperature": 0.7}
    with pytest.raises(
        KeyError, match="no setting 'x' in this study; there are 'harness=once, temperature=0'; "
    ):
        study["x"]


def test_a_list_design_goes_side_by_side(tmp_path: Path) -> None:
    study = studied(tmp_path, harness=[once, twice], axes={"sampling.temperature": [0.0, 1.0]}, design="list")
    assert list(study) == ["harness=once, temperature=0.0", "harness=twice, temperature=1.0"]


def test_a_paired_design_changes_one_thing_at_a_time(tmp_path: Path) -> None:
    study = studied(
        tmp_path,
        axes={"sampling.temperature": [0, 1, 2], "limits.max_turns": [4, 8], "retries": [0, 1]},
        design="paired",
    )
    rows = study.settings[["temperature", "max_turns", "retries"]].to_numpy().tolist()
    assert rows == [[0, 4, 0], [1, 4, 0], [2, 4, 0], [0, 8, 0], [0, 4, 1]]
    assert str(study.settings.temperature.dtype) == "Int64"


def test_keys_of_configs_reach_taskset_task_harness_and_limits(tmp_path: Path) -> None:
    seen: list[tuple[str, ...]] = []

    def model(messages: vf.Messages) -> str:
        seen.append(tuple(message.text for message in messages))
        return add([messages[-1]])

    study = studied(
        tmp_path,
        taskset=AdditionTaskset().take(2),
        model=vf.Scripted(model),
        axes={
            "harness.system_prompt": {"none": "", "brief": "Be brief."},
            "taskset.num_tasks": [2, 3],
            "taskset.system_prompt": [None],
        },
    )
    assert Counter(len(messages) for messages in seen) == {1: 4, 2: 4}
    assert {messages[0] for messages in seen if len(messages) == 2} == {"Be brief."}
    # two columns of one name: the second has its whole key
    assert study.axes["taskset.system_prompt"] == ["taskset.system_prompt"]
    assert list(study.settings.num_tasks) == [2, 3, 2, 3]
    assert [run.config["taskset"]["num_tasks"] for run in study.runs.values()] == [2, 3, 2, 3]


def test_rows_are_told_apart_and_named_axes_keep_their_names(tmp_path: Path) -> None:
    hot = {"temperature": 1.0, "top_p": 0.9}
    study = studied(
        tmp_path,
        sampling={"cold": {"temperature": 0.0}, "hot": hot},
        model=[vf.Scripted(add, name="a"), vf.Scripted(add, name="b")],
    )
    assert list(study) == [f"model={m}, sampling={s}" for m in "ab" for s in ("cold", "hot")]
    assert list(study.settings.sampling) == ["cold", "hot"] * 2
    several = studied(tmp_path / "2", sampling=[None, {"temperature": 0.5}, hot])
    assert list(several) == ["sampling=default", "temperature=0.5", "temperature=1.0, top_p=0.9"]
    assert several.settings.top_p.isna().tolist() == [True, True, False]


def test_what_is_done_is_not_run_again_and_a_value_costs_its_own_cells(tmp_path: Path) -> None:
    model = Counting()
    given: dict[str, Any] = {"model": model.client, "dir": None}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        one = studied(tmp_path, axes={"sampling.temperature": [0, 1]}, **given)
        assert model.calls == 6
        again = studied(tmp_path, axes={"sampling.temperature": [0, 1]}, **given)
        assert model.calls == 6 and again.dir == one.dir and again.frame().equals(one.frame())
        more = studied(tmp_path, axes={"sampling.temperature": [2, 1, 0]}, **given)
        assert model.calls == 9 and more.dir == one.dir and len(more) == 3
        loaded = vf.load(more.dir)
        assert isinstance(loaded, vf.Study) and loaded.complete and loaded.frame().equals(more.frame())
        assert loaded.settings.drop(columns="time_s").equals(more.settings.drop(columns="time_s"))
    with pytest.raises(StoreError, match=r"has no study\.json; name a folder that vf\.study has made"):
        vf.Study.load(tmp_path)


def test_a_task_of_an_axis_is_loaded_once_for_all_others(tmp_path: Path) -> None:
    loads: list[int] = []

    class Loud(AdditionTaskset):
        def load(self) -> list[Any]:
            loads.append(self.config.num_tasks)
            return list(super().load())

    studied(
        tmp_path,
        taskset=Loud(num_tasks=2),
        axes={"sampling.temperature": [0, 1, 2], "taskset.num_tasks": [1, 2]},
    )
    assert sorted(loads) == [1, 2]


def test_settings_advance_together_under_one_limit(tmp_path: Path) -> None:
    running: Counter[str] = Counter()
    most = 0
    order: list[str] = []

    def make(name: str) -> Any:
        async def slow(session: Any, task: Any) -> str:
            nonlocal most
            order.append(name)
            running[name] += 1
            most = max(most, running.total())
            await asyncio.sleep(0.01)
            running[name] -= 1
            return "0"

        return vf.harness(slow)

    studied(tmp_path, taskset=taskset(12), harness={name: make(name) for name in "abcd"}, concurrency=4)
    assert most == 4 and len(order) == 48
    for done in range(4, 48, 4):  # at any time no setting is more than a step ahead of another
        counts = Counter(order[:done])
        assert max(counts.values()) - min(counts[name] for name in "abcd") <= 2, order


def test_errors_are_no_zeros_and_are_told_by_setting(tmp_path: Path) -> None:
    @vf.harness
    async def broken(session: Any, task: Any) -> str:
        raise RuntimeError("lost my way")

    study = studied(tmp_path, harness=[once, broken])
    settings = study.settings.set_index("setting")
    assert settings.errors["harness=broken"] == 3 and settings.reward.isna()["harness=broken"]
    frame = study.frame()
    assert frame[frame.harness == "broken"].reward.isna().all()
    assert "harness=broken: 3 of 3 failed, first HarnessError: " in str(study)
    page = check_bundle(study_bundle(study._view()))
    assert "lost my way" in page.text and "harness=once" in page.text
    found = study.compare()
    assert found[0].difference is None and "nothing to compare" in found[0].warnings[0]
    assert "harness=broken: 3 of 3 rollouts have no value, 3 by an error" in str(found)
    check_bundle(study.plot(x="harness")._repr_mimebundle_())
    check_bundle(study.table()._repr_mimebundle_())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, r"study\(\) has no axis"),
        ({"harness": []}, "axis 'harness': give a list of values"),
        ({"harness": [once, "nul"]}, "no harness 'nul'; did you mean 'null'"),
        ({"harness": [once, once], "design": "lits"}, "no such design; did you mean 'list'"),
        (
            {"harness": [once, twice], "rollouts": [1, 2, 3], "design": "list"},
            "equal lengths: harness has 2, roll",
        ),
        ({"harness": [once, twice], "concurrency": [1, 2]}, "cannot be an axis: it belongs to the study"),
        ({"harness": [once, twice], "rollout": 3}, r"study\(\) takes no 'rollout'; did you mean 'rollouts'"),
        ({"axes": {"temperature": [0]}}, r"takes no 'temperature'; write axes=\{.sampling.temperature"),
        ({"axes": {"heat": [0]}}, r"study\(\) takes no .heat.; a key of a config has dots"),
        (
            {"axes": {"sampling.temprature": [0]}},
            "temprature=0: sampling.temprature: unknown key; did you mean",
        ),
        (
            {"axes": {"sampling.temperature": [0, "hot"]}},
            "temperature=hot: sampling.temperature: input should be",
        ),
        ({"axes": {"sampling.temperature": 0.5}}, "axis 'sampling.temperature': give a list of values"),
        ({"axes": {"model.name": ["a"]}}, r"no such setting; give models as model=\[\.\.\.\]"),
        ({"axes": {"samplin.top_p": [1]}}, "no such setting; did you mean sampling"),
        (
            {"sampling": {"temperature": [0, 1]}},
            r"for an axis write axes=\{'sampling.temperature': \[0, 1\]\}",
        ),
        (
            {"axes": {"harness.system_prompt": ["x"]}, "harness": once},
            "'once' is a function and has no settings",
        ),
        (
            {"axes": {"task.bonus": [1]}, "taskset": taskset(2).include(idx=0)},
            "taskset.task.bonus: unknown key",
        ),
        ({"axes": {"sampling.temperature": [1, 1]}}, "has the value 1 twice"),
        ({"harness": [once, "program"]}, "harness 'program' has no command"),
        ({"axes": {"sampling.temperature": [0]}, "sampling": [{"top_p": 1.0}, {"top_p": 2.0}]}, "top_p=2.0"),
    ],
)
def test_nothing_starts_if_one_cannot(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(VfnbError, match=words):
        studied(tmp_path, **settings)
    assert not (tmp_path / "all").exists()


def test_a_list_of_tasks_has_no_settings(tmp_path: Path) -> None:
    tasks = list(taskset(2))
    study = studied(tmp_path, taskset=tasks, axes={"sampling.temperature": [0, 1]})
    assert len(study.frame()) == 4
    with pytest.raises(ConfigError, match="a list of tasks has no settings"):
        studied(tmp_path / "2", taskset=tasks, axes={"taskset.system_prompt": ["x"]})


def test_a_budget_holds_for_the_whole_study(tmp_path: Path) -> None:
    study = studied(tmp_path, taskset=taskset(20), harness=[once, twice], max_tokens=400, concurrency=2)
    assert not study.complete and "max_tokens=400 is used up" in str(study)
    frame = study.frame()
    assert 300 < (frame.tokens_in.sum() + frame.tokens_out.sum()) < 600
    assert set(frame[frame.reward.notna()].harness) == {"once", "twice"}
    whole = studied(tmp_path, taskset=taskset(20), harness=[once, twice], max_tokens=100_000)
    assert whole.complete and whole._view().reused > 4


def test_a_cancelled_study_stops_all_in_time_and_goes_on(tmp_path: Path) -> None:
    started = threading.Event()

    @vf.harness
    async def waiting(session: Any, task: Any) -> str:
        started.set()
        await asyncio.sleep(60 if started_slow else 0)
        return "0"

    started_slow = True
    given: dict[str, Any] = {"model": vf.Scripted(add), "dir": tmp_path / "all"}
    study = vf.study(taskset(4), harness=[once, waiting], concurrency=8, **given)
    assert started.wait(10)
    with pytest.raises(TimeoutError, match="1 of 2 runs have not ended after 1 s"):
        study.wait(1, quiet=True)
    assert study.settings.attrs["complete"] is False
    begin = time.monotonic()
    study.cancel()
    assert time.monotonic() - begin < 10 and not study.complete
    assert list(study.settings.cancelled) == [0, 4] and "4 cancelled" in str(study)


def test_a_study_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> vf.Study:
        return await vf.study(taskset(1), harness=[once, "null"], model=vf.Scripted(add), dir=tmp_path / "a")

    assert asyncio.run(main()).complete


CHILD = """
import sys, pathlib
sys.path.insert(0, {tests!r})
import vfnb as vf
from support.addition import add, taskset

model = vf.Scripted(add, latency=0.01)
axes = {{"sampling.temperature": [0, 1, 2]}}
study = vf.study(taskset(40), model=model, axes=axes, concurrency=4, dir={folder!r})
print("started", flush=True)
study.wait(quiet=True)
print("finished", study._view().reused, flush=True)
"""


@pytest.mark.timeout(120)
def test_a_killed_study_is_there_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    code = CHILD.format(tests=str(ROOT / "tests"), folder=str(folder))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline().strip() == "started"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        counts = vf.Study.load(folder).frame().groupby("setting").ok.sum()
        if counts.min() >= 3:
            break
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    killed = vf.Study.load(folder)
    done = killed.frame().ok.fillna(value=False)
    assert not killed.complete and 9 <= done.sum() < 120
    counts = killed.frame()[done].groupby("setting").size()
    assert len(counts) == 3 and counts.max() - counts.min() <= 4  # they had advanced together
    output = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=60
    ).stdout
    assert f"finished {done.sum()}" in output
    whole = vf.Study.load(folder)
    assert whole.complete and list(whole.settings.scored) == [40, 40, 40]


def test_settings_are_found_by_position_and_axes_and_their_frames_are_one(tmp_path: Path) -> None:
    study = studied(tmp_path, harness=[once, twice], axes={"sampling.temperature": [0, 1]})
    assert study[0] is study["harness=once, temperature=0"] and study[-1] is list(study.values())[3]
    assert study[{"harness": "twice", "temperature": 0}] is study[2]
    assert dict(study.items()) == {name: study[name] for name in study.keys()}  # noqa: SIM118
    with pytest.raises(KeyError, match="fits 2 settings: 'harness=twice, temperature=0'; 'harness=twice, t"):
        study[{"harness": "twice"}]
    with pytest.raises(ConfigError, match="'heat' is no axis"):
        study[{"heat": 0}]
    with pytest.raises(KeyError, match="no setting 4 "):
        study[4]

    said = study.frame("messages", columns=["trace", "role"], where="role = 'assistant'")
    assert list(said.columns) == ["setting", "harness", "temperature", "trace", "role"]
    assert said.groupby("harness").size().to_dict() == {"once": 6, "twice": 12}
    assert said.attrs["complete"] is True
    assert {"harness", "axis_harness"} & set(study.frame("traces"))
    both = vf.frame(study, "messages")
    assert len(both) == len(vf.frame([study.dir], "messages")) == len(study.frame("messages"))
    with pytest.raises(ConfigError, match="need a level"):
        study.frame(where="reward > 0")


def test_settings_that_were_scored_by_different_rewards_are_not_compared_in_silence(tmp_path: Path) -> None:
    study = studied(tmp_path, harness=[once, twice], rollouts=2)
    assert "different rewards" not in f"{study}{study.compare()}{study.plot().text}"

    def half(trace: vf.Trace) -> float:
        return 0.5

    study[1].rescore([half], label="half")
    told = "scored by different rewards, so that means do not compare: harness=once: "
    assert told in str(study) and f"warning: {told}" in str(study.compare())
    assert told[:40] in study.plot().text and "different rewards" not in str(study.compare(y="turns"))
    assert "half (rescored: half)" in study.compare().notes[0]
    assert any(told[:25] in note for note in vf.diff(study[0], study[1]).notes)
    assert vf.diff(study[1].use(0), study[1]).notes == ()  # two versions of one run are meant to differ

    made = study.rescore([half], label="half")
    assert list(made) == list(study) and all(one.scored == 6 for one in made.values())
    assert "different rewards" not in f"{study}{study.compare()}{study.plot().text}"
