"""Hooks by config: the rules of their tables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.tasks import plug, rollout_code, score_code
from vfnb.utils.config import build

HOOKS = """
import vfnb as vf

FACTOR = 2

def two_turns(trace: vf.Trace) -> bool:
    return trace.num_turns >= 2

def reply_length(trace) -> float:
    return FACTOR * len(trace.last_reply)

def exact_match(task, trace) -> float:
    return float(trace.last_reply == str(task.answer))

@vf.reward(weight=3.0, priority=2)
def heavy(trace) -> float:
    return 1.0

not_a_function = 3
"""


class SumData(vf.TaskData):
    answer: int = 4


class Sums(vf.Task[SumData]):
    @vf.stop(skip_scoring=True, priority=5)
    def single_turn(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 1

    @vf.reward(weight=0.0, priority=1)
    def exact_match(self, trace: vf.Trace) -> float:
        return -1.0

    @vf.reward
    def polite(self, trace: vf.Trace) -> float:
        return 0.5

    @vf.metric
    def words(self, trace: vf.Trace) -> float:
        return 7.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "my_hooks.py").write_text(HOOKS)
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def task(**tables: Any) -> Sums:
    return Sums(SumData(), build(vf.TaskConfig, tables, path="task"))


def names(found: Sums, kind: str) -> list[str]:
    return [hook.spec.name for hook in found.hooks(kind)]


def spec(found: Sums, kind: str, name: str) -> Any:
    return next(hook.spec for hook in found.hooks(kind) if hook.spec.name == name)


def scored(found: Sums, reply: str = "4") -> vf.Trace:
    trace = vf.Trace(answer=reply)
    asyncio.run(found.score(trace))
    return trace


def wrong(**tables: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        task(**tables).hooks("stop")
    return str(caught.value)


def test_hooks_can_be_plugged_from_config_without_touching_the_code() -> None:
    found = task(
        metrics={"reply_length": {"fn": "my_hooks.py:reply_length", "priority": 10}},
        rewards={"exact": {"fn": "my_hooks.py:exact_match", "weight": 0.5}},
    )
    assert names(found, "metric") == ["reply_length", "words"]
    assert names(found, "reward") == ["exact_match", "polite", "exact"]
    trace = scored(found)
    assert trace.metrics == {"reply_length": 2.0, "words": 7.0}
    assert {name: (r.value, r.weight) for name, r in trace.rewards.items()} == {
        "exact_match": (-1.0, 0.0),
        "polite": (0.5, 1.0),
        "exact": (1.0, 0.5),
    }


@pytest.mark.parametrize("how", ["my_hooks.py:reply_length", "plug_pkg.mod:length", "plug_pkg.mod.length"])
def test_each_entry_names_a_function_by_import_path(
    how: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "plug_pkg").mkdir()
    (folder / "plug_pkg" / "__init__.py").write_text("")
    (folder / "plug_pkg" / "mod.py").write_text("def length(trace): return 2.0 * len(trace.last_reply)\n")
    monkeypatch.syspath_prepend(str(folder))
    assert scored(task(metrics={"length": {"fn": how}})).metrics["length"] == 2.0


def test_a_plugged_hook_replaces_a_decorated_method_of_the_same_name() -> None:
    found = task(stops={"single_turn": {"fn": "my_hooks.py:two_turns"}})
    (stop,) = found.hooks("stop")
    assert stop.function.__name__ == "two_turns" and stop.spec.name == "single_turn"
    assert (
        scored(task(rewards={"exact_match": "my_hooks.py:exact_match"})).rewards["exact_match"].value == 1.0
    )


def test_omitted_fields_preserve_the_replaced_methods_settings() -> None:
    found = task(
        stops={"single_turn": {"fn": "my_hooks.py:two_turns"}},
        rewards={"exact_match": {"fn": "my_hooks.py:heavy", "weight": 0.25}},
    )
    stop = spec(found, "stop", "single_turn")
    assert (stop.skip_scoring, stop.priority, stop.on) == (True, 5, "trace")
    reward = spec(found, "reward", "exact_match")
    assert (reward.weight, reward.priority) == (0.25, 1)


def test_without_a_replaced_method_a_functions_own_decorator_counts() -> None:
    reward = spec(task(rewards={"new": {"fn": "my_hooks.py:heavy"}}), "reward", "new")
    assert (reward.weight, reward.priority) == (3.0, 2)


def test_leaving_fn_out_overrides_only_the_metadata() -> None:
    found = task(
        rewards={"exact_match": {"weight": 1.0}, "polite": {"priority": 9}},
        stops={"single_turn": {"skip_scoring": False}},
    )
    assert names(found, "reward") == ["polite", "exact_match"]
    assert spec(found, "reward", "exact_match").weight == 1.0
    assert spec(found, "stop", "single_turn").skip_scoring is False
    assert scored(found).reward == -0.5


def test_in_python_the_tables_take_functions() -> None:
    def short(trace: vf.Trace) -> float:
        return float(len(trace.last_reply) < 3)

    found = task(rewards={"short": short, "polite": {"fn": short, "weight": 2.0}})
    assert scored(found).reward == 3.0
    config = found.config.model_dump(mode="json", exclude_unset=True)
    assert config["rewards"]["short"] == {"fn": "python:" + short.__qualname__}
    text = wrong(**config)
    assert "task.rewards.short.fn" in text and "which no file can name" in text


def test_an_edited_file_is_seen_and_an_equal_one_is_not_executed_again(folder: Path) -> None:
    file = folder / "my_hooks.py"
    found = task(metrics={"reply_length": "my_hooks.py:reply_length"})
    assert scored(found).metrics["reply_length"] == 2.0
    first = found.hooks("metric")[-1].function
    file.write_text(HOOKS)  # touched, and the same
    assert found.hooks("metric")[-1].function is first
    file.write_text(HOOKS.replace("FACTOR = 2", "FACTOR = 3"))  # same size, same second
    assert scored(found).metrics["reply_length"] == 3.0
    assert scored(found.with_hooks(plug(Sums, found.config))).metrics["reply_length"] == 3.0


def test_hooks_of_a_run_stay_as_they_were_when_it_was_planned(folder: Path) -> None:
    found = task(metrics={"reply_length": "my_hooks.py:reply_length"})
    fixed = found.with_hooks(plug(Sums, found.config))
    (folder / "my_hooks.py").write_text(HOOKS.replace("FACTOR = 2", "FACTOR = 3"))
    assert scored(fixed).metrics["reply_length"] == 2.0
    (folder / "my_hooks.py").unlink()
    assert scored(fixed).metrics["reply_length"] == 2.0


@pytest.mark.parametrize(
    ("old", "new", "rollout", "scores"),
    [
        ("FACTOR = 2", "FACTOR = 3", False, True),
        ("num_turns >= 2", "num_turns >= 3", True, False),
        ("FACTOR = 2", "FACTOR = 2  # two", False, False),
    ],
)
def test_what_an_edit_of_the_file_changes(
    folder: Path, old: str, new: str, rollout: bool, scores: bool
) -> None:
    found = task(stops={"end": "my_hooks.py:two_turns"}, metrics={"length": "my_hooks.py:reply_length"})

    def codes() -> tuple[str | None, str | None]:
        plugged = plug(Sums, found.config)
        return rollout_code(Sums, plugged), score_code(Sums, plugged)

    before = codes()
    (folder / "my_hooks.py").write_text(HOOKS.replace(old, new))
    after = codes()
    assert None not in before
    assert (before[0] != after[0], before[1] != after[1]) == (rollout, scores)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"rewards": {"x": {"fn": "nope.py:f"}}}, ["task.rewards.x.fn", "there is no file", "nope.py"]),
        (
            {"rewards": {"x": {"fn": "my_hooks.py:exactmatch"}}},
            ["task.rewards.x.fn", "did you mean 'exact_match'"],
        ),
        (
            {"metrics": {"x": {"fn": "no_such_pkg.mod:f"}}},
            ["task.metrics.x.fn", "cannot import 'no_such_pkg.mod'"],
        ),
        ({"metrics": {"x": {"fn": "my_hooks.py"}}}, ["task.metrics.x.fn", "write 'my_hooks.py:function'"]),
        ({"metrics": {"x": {"fn": "f"}}}, ["task.metrics.x.fn", "is no import path"]),
        (
            {"metrics": {"x": {"fn": "my_hooks.py:not_a_function"}}},
            ["task.metrics.x.fn", "is a int, not a function"],
        ),
        ({"metrics": {"x": {"fn": "my_hooks.py:heavy"}}}, ["task.metrics.x.fn", "heavy is a reward"]),
        (
            {"metrics": {"x": {"fn": "my_hooks.py:heavy", "weight": 1}}},
            ["task.metrics.x.weight", "unknown key"],
        ),
        ({"rewards": {"x": {"fn": "bad.py:typo"}}}, ["task.rewards.x.fn", "`trase`; did you mean `trace`"]),
        ({"stops": {"x": {"fn": "bad.py:vague"}}}, ["task.stops.x.fn", "cannot tell when it runs"]),
        ({"rewards": {"x": {"fn": "broken.py:f"}}}, ["task.rewards.x.fn", "SyntaxError", "line 2"]),
        (
            {"rewards": {"exact_mach": {"weight": 1.0}}},
            ["task.rewards.exact_mach", "did you mean exact_match"],
        ),
        (
            {"rewards": {"words": {"fn": "my_hooks.py:heavy"}}},
            ["task.rewards.words", "a metric of that name"],
        ),
        ({"rewards": {"x": {"wieght": 1.0}}}, ["task.rewards.x.wieght", "did you mean weight"]),
        (
            {"rewards": {"exact_match": {"weight": float("nan")}}},
            ["task.rewards.exact_match.weight", "finite"],
        ),
        ({"stops": {"timeout": {"fn": "my_hooks.py:two_turns"}}}, ["task.stops.timeout", "name of a limit"]),
    ],
)
def test_a_wrong_entry_is_named_with_its_key_path(folder: Path, tables: Any, said: list[str]) -> None:
    (folder / "bad.py").write_text("def typo(trase): return 1.0\ndef vague(state): return True\n")
    (folder / "broken.py").write_text("x = 1\ndef f(:\n")
    text = wrong(**tables)
    for part in said:
        assert part in text, text
