"""Example tasksets that look at the reply alone: right and wrong answers, end to end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.examples import replies, solve
from vfnb_tasksets.alphabet_sort import AlphabetSortTaskset
from vfnb_tasksets.gsm8k_style import GSM8KTaskset
from vfnb_tasksets.math_jsonl import MathTaskset
from vfnb_tasksets.reverse_text import ReverseTaskset

import vfnb as vf
from vfnb.errors import ConfigError, TasksetError


def rewards(traces: list[vf.Trace]) -> list[float | None]:
    return [trace.reward for trace in traces]


def lines(path: Path, *rows: Any) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def test_math_compares_numbers(tmp_path: Path) -> None:
    taskset = MathTaskset().take(3)
    model = replies(taskset, r"3/4 of 20 is \boxed{15.0}", r"\boxed{7 + 9 = 16}", "x is 0.5")
    traces = solve(taskset, model, tmp_path)
    assert rewards(traces) == [1.0, 0.0, 1.0]
    assert [trace.metrics["boxed"] for trace in traces] == [1.0, 1.0, 0.0]
    assert traces[0].messages[0].role == "system"


def test_math_compares_as_mathematics(tmp_path: Path) -> None:
    path = lines(tmp_path / "my.jsonl", *({"problem": f"p{i}", "answer": r"\frac{1}{2}"} for i in range(3)))
    taskset = MathTaskset({"path": path, "task": {"check": "math"}})
    model = replies(taskset, r"\boxed{0.5}", r"\boxed{\frac{1}{3}}", "0.5")
    assert rewards(solve(taskset, model, tmp_path / "run")) == [1.0, 0.0, 0.0]


def test_every_row_that_comes_with_the_package_has_a_gold_answer(tmp_path: Path) -> None:
    taskset = MathTaskset()
    model = replies(taskset, *(rf"\boxed{{{task.data.answer}}}" for task in taskset.resolve()))
    assert set(rewards(solve(taskset, model, tmp_path / "math"))) == {1.0}
    school = GSM8KTaskset()
    gold = replies(school, *(task.data.solution for task in school.resolve()))
    traces = solve(school, gold, tmp_path / "gsm8k")
    assert len(traces) == 8 and set(rewards(traces)) == {1.0}
    assert {trace.rewards["formatted"].value for trace in traces} == {1.0}


def test_gsm8k_rows(tmp_path: Path) -> None:
    taskset = GSM8KTaskset().take(3)
    model = replies(taskset, "72 - 7 = 65\n#### 65", "It is 65.", "That makes $44.00.")
    traces = solve(taskset, model, tmp_path)
    assert rewards(traces) == [1.0, 0.0, 1.0]
    assert [trace.rewards["formatted"].value for trace in traces] == [1.0, 0.0, 0.0]


def test_broken_files_say_where(tmp_path: Path) -> None:
    with pytest.raises(TasksetError, match=r"no file .*nowhere\.jsonl; give the path"):
        MathTaskset(path=str(tmp_path / "nowhere.jsonl")).resolve()
    path = lines(tmp_path / "a.jsonl", {"problem": "p", "answer": "1"}, {"problem": "p"})
    with pytest.raises(TasksetError, match="line 2: no 'answer'; there are problem"):
        MathTaskset(path=path).resolve()
    (tmp_path / "b.jsonl").write_text('{"problem": ')
    with pytest.raises(TasksetError, match="line 1: not valid JSON"):
        MathTaskset(path=str(tmp_path / "b.jsonl")).resolve()
    with pytest.raises(TasksetError, match="no `#### number` at the end of the answer to 'q'"):
        GSM8KTaskset(path=lines(tmp_path / "c.jsonl", {"question": "q", "answer": "5"})).resolve()


def test_reversed_texts_are_scored_in_part(tmp_path: Path) -> None:
    taskset = ReverseTaskset(num_tasks=3, words=2)
    first, second, third = (task.data.answer for task in taskset.resolve())
    model = replies(taskset, f"<reversed>{first}</reversed>", second[:-1], "1234567890")
    traces = solve(taskset, model, tmp_path)
    exact, near, nothing = rewards(traces)
    assert exact == 1.0 and nothing == 0.0
    assert near is not None and 0.9 < near < 1.0
    assert [trace.metrics["exact"] for trace in traces] == [1.0, 0.0, 0.0]
    assert third == taskset.resolve()[2].data.prompt_text[::-1]


def test_sorted_names(tmp_path: Path) -> None:
    taskset = AlphabetSortTaskset(min_names=4, max_names=4)
    answers = [task.data.answer for task in taskset.take(3).resolve()]
    swapped = [answers[1][1], answers[1][0], *answers[1][2:]]
    model = replies(taskset, "\n".join(answers[0]), "\n".join(f"- {name}" for name in swapped), "Ada", n=3)
    assert rewards(solve(taskset, model, tmp_path, n=3)) == [1.0, 0.5, 0.0]


def test_an_endless_stream_needs_a_bound(tmp_path: Path) -> None:
    with pytest.raises((TasksetError, ConfigError), match="infinite"):
        vf.evaluate(AlphabetSortTaskset(), model=vf.Scripted(["x"]), dir=tmp_path)
