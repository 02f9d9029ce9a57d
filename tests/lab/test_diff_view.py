"""`vf.diff(a, b).view()` from Python's side."""

from __future__ import annotations

import json
import time
from pathlib import Path

from support.html_rules import check_bundle
from support.node import run_module
from support.talks import bushy, chain, family
from support.views import HOSTILE

import vfnb as vf
from vfnb.lab.widgets.base import WIDGET, script


def test_rows_of_two_traces_and_what_stands_behind_them() -> None:
    diff = vf.diff(family(), family(HOSTILE))
    view = diff.view()
    shown = json.loads(json.dumps(view.diff))
    assert [row[0] for row in shown["rows"]] == [row.kind for row in diff.rows]
    assert shown["counts"] == diff.counts
    changed = next(at for at, row in enumerate(diff.rows) if row.kind == "changed")
    view.wanted = {"keys": [str(changed), "0", "999"], "n": 1}
    spans = view.detail[str(changed)]["spans"]
    assert any(kind == "right" and "<script>" in text for kind, text in spans)
    assert "\x1b" not in json.dumps(view.detail, ensure_ascii=False)
    assert view.detail["0"]["spans"] == [["same", "You count."]]
    assert "IndexError" in view.detail["999"]["error"]
    data, _ = view._repr_mimebundle_()
    assert data[WIDGET]
    check_bundle(data)
    assert len(repr(view)) < 120


def test_configs_and_runs_have_views_too(tmp_path: Path) -> None:
    from support.addition import add, taskset

    view = vf.diff({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}, "d": 4}).view()
    assert [row[:4] for row in view.diff["rows"]] == [
        ["same", "a", "1", "1"],
        ["changed", "b.c", "2", "3"],
        ["right", "d", None, "4"],
    ]
    runs = [
        vf.evaluate(taskset(n), model=vf.Scripted(add), dir=tmp_path / str(n)).wait(quiet=True)
        for n in (2, 3)
    ]
    view = vf.diff(*runs).view()
    view.wanted = {"keys": [str(at) for at in range(len(view.diff["rows"]))], "n": 1}
    assert all("error" not in answer for answer in view.detail.values())


def test_two_long_traces_open_soon() -> None:
    begin = time.thread_time()
    view = vf.diff(chain(500), bushy(1000)).view()
    assert time.thread_time() - begin < 2
    assert len(json.dumps(view.diff)) < 600_000


def test_what_is_the_same_folds(tmp_path: Path) -> None:
    run_module(
        tmp_path,
        script("common", "diffs")
        + """
    import assert from "node:assert";
    const rows = ["same", "same", "same", "changed", "same", "left", "same", "same", "same"].map((kind) => [kind]);
    assert.deepEqual(drawnRows(rows, true, new Set()), [[0, 3], [3], [4], [5], [6, 9]]);
    assert.deepEqual(drawnRows(rows, true, new Set([6])), [[0, 3], [3], [4], [5], [6], [7], [8]]);
    assert.equal(drawnRows(rows, false, new Set()).length, 9);
    """,
    )
