"""`run.view()` from Python's side: rows, filter, sort, the opened trace, and a run under way."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.html_rules import check_bundle
from support.wordy import WordyTaskset, speaker

import vfnb as vf
from vfnb.lab.widgets.base import WIDGET


def until(true: Callable[[], object], limit_s: float = 20) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vf.Run:
    folder = tmp_path_factory.mktemp("runs") / "wordy"
    found = vf.evaluate(WordyTaskset(), model=speaker(fail=0.15), rollouts=4, dir=folder).wait(quiet=True)
    found.traces[0].label("good", True)
    return found


def test_all_rollouts_are_listed_failed_ones_first(run: vf.Run) -> None:
    view = run.view()
    page = json.loads(json.dumps(view.page))
    assert page["total"] == page["matched"] == 32
    states = page["cells"]["state"]
    failed = states.count("error")
    assert failed > 0
    assert states[:failed] == ["error"] * failed
    assert "the model is gone" in page["errors"][0]
    assert {"correct", "thorough", "polite", "words", "label_good"} <= set(page["columns"])
    assert page["cells"]["reward"][0] is None
    assert view.head["state"] == "finished"
    assert f"{failed} failed" in view.head["line"]
    assert any("the model is gone" in line for line in view.head["errors"])


def test_filters_are_conditions_or_texts(run: vf.Run) -> None:
    view = run.view()
    view.filter = "correct = 1 AND thorough < 0.5"
    until(lambda: view.page["matched"] < 32)
    assert set(view.page["cells"]["correct"]) == {1.0}
    view.filter = "question 3"
    until(lambda: view.page["matched"] == 4)
    view.filter = "nothing < 3"
    until(lambda: "no column 'nothing'" in view.page["problem"])
    assert view.page["matched"] == 32
    view.filter = "no such text"
    until(lambda: view.page["matched"] == 0)
    view.filter = ""
    until(lambda: view.page["matched"] == 32)


def test_columns_sort_both_ways_and_missing_values_come_last(run: vf.Run) -> None:
    view = run.view()
    view.sort = "thorough"
    until(lambda: view.page["cells"]["thorough"][0] is not None)
    known = [value for value in view.page["cells"]["thorough"] if value is not None]
    assert known == sorted(known)
    assert view.page["cells"]["thorough"][-1] is None
    view.descending = True
    until(lambda: view.page["cells"]["thorough"][0] == known[-1])


def test_a_click_opens_a_trace_and_answers_for_it(run: vf.Run) -> None:
    view = run.view()
    assert view.graph == {}
    chosen = view.page["ids"][-1]
    view.opened = chosen
    until(lambda: view.graph.get("id") == chosen)
    view.wanted = {"keys": [f"{chosen}:message:0"], "n": 1}
    assert view.detail[f"{chosen}:message:0"]["pieces"][0][2].startswith("Question")
    view.opened = ""
    until(lambda: view.graph == {})


def test_the_twin_is_that_of_the_run(run: vf.Run) -> None:
    data, _ = run.view()._repr_mimebundle_()
    assert data[WIDGET]
    check_bundle(data)
    assert "32" in repr(run.view())
    assert len(repr(run.view())) < 120


def test_a_running_run_is_followed_to_its_end(tmp_path: Path) -> None:
    run = vf.evaluate(
        WordyTaskset(), model=speaker(wait_s=0.4), rollouts=4, concurrency=4, dir=tmp_path / "live"
    )
    view = run.view()
    seen: list[int] = []
    view.observe(lambda change: seen.append(change["new"]["done"]), "head")
    until(lambda: run.complete)
    until(lambda: view.head["state"] == "finished")
    assert view.head["done"] == 32
    assert view.page["matched"] == 32
    assert len(set(seen)) >= 3
    assert seen == sorted(seen)
    assert len(seen) <= 60
