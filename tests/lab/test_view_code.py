"""The page's side of the views: syntax, size, and the parts that need no page, with a fake model."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from support.node import node_program, run_module

from vfnb.lab.widgets import base

VIEWS = {"trace": "TraceView", "runs": "RunTable", "lab": "RewardLab", "diffs": "DiffView"}
MODEL = """
import assert from "node:assert";
class Model {
  constructor(state) { this.state = state; this.saved = []; this.heard = {}; }
  get(name) { return this.state[name]; }
  set(name, value) { this.state[name] = value; (this.heard["change:" + name] || []).forEach((act) => act()); }
  on(event, act) { (this.heard[event] ||= []).push(act); }
  off(event, act) { this.heard[event] = this.heard[event].filter((one) => one !== act); }
  save_changes() { this.saved.push({ ...this.state }); }
}
"""


def view_class(name: str) -> type[base.View]:
    found: type[base.View] = getattr(import_module(f"vfnb.lab.widgets.{name}"), VIEWS[name])
    return found


@pytest.mark.parametrize("name", VIEWS)
def test_each_view_is_small_valid_and_on_its_own(name: str, tmp_path: Path) -> None:
    cls = view_class(name)
    script = tmp_path / "view.mjs"
    script.write_text(cls._esm)
    subprocess.run([node_program(), "--check", script], check=True, timeout=50)
    assert len((cls._esm + cls._css).encode()) < 50_000
    assert "import " not in cls._esm.replace("important", "")
    for unsafe in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "http:",
        "https:",
    ):
        assert unsafe not in cls._esm.replace("http://www.w3.org/2000/svg", "")
        assert unsafe not in cls._css


def test_paths_followed_branches_and_folds(tmp_path: Path) -> None:
    run_module(
        tmp_path,
        base.script("common", "panel")
        + MODEL
        + """
    // 0-1-2-3-4-5-6-7-8-9, a fork at 1 (10), columns 0..9
    const graph = {
      parent: [-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1], branch: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10], main: 0,
      x: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2], columns: 10, tips: [[0, 9], [10, 10]], links: [],
    };
    assert.deepEqual(pathTo(graph.parent, 10), [0, 1, 10]);
    assert.equal(followed(graph, -1, -1), 9);
    assert.equal(followed(graph, 10, -1), 10);
    assert.equal(followed(graph, 1, 10), 10);
    assert.equal(followed(graph, 5, 10), 9);
    assert.equal(followed(graph, 99, 99), 9);
    assert.deepEqual([...columnPlaces(graph, null).places], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    const folded = columnPlaces(graph, new Set([0, 1, 10, 9]));
    assert.deepEqual(folded.gaps, [[4, 8, 4.5]]);
    assert.deepEqual([...folded.places], [0, 1, 2, 3, 4.5, 4.5, 4.5, 4.5, 6, 7]);
    assert.equal(folded.width, 8);
    """,
    )


def test_details_are_asked_for_once_and_together(tmp_path: Path) -> None:
    run_module(
        tmp_path,
        base.script("common")
        + MODEL
        + """
    const model = new Model({ detail: { known: 1 }, wanted: {} }), on = listeners(model);
    let told = 0;
    const get = details(model, on, () => told++);
    assert.equal(get("known"), 1);
    assert.equal(get("a"), null);
    assert.equal(get("b"), null);
    assert.equal(get("a"), null);
    await null;
    assert.equal(model.saved.length, 1);
    assert.deepEqual(model.get("wanted").keys, ["a", "b"]);
    get("c");
    await null;
    assert.deepEqual(model.get("wanted").keys, ["a", "b", "c"]);  // what has no answer yet is asked again
    model.set("detail", { a: { text: "A" }, b: 2 });
    assert.equal(told, 1);
    assert.deepEqual(get("a"), { text: "A" });
    on.stop();
    model.set("detail", { c: 3 });
    assert.equal(told, 1);
    """,
    )


def test_text_of_messages_stays_text(tmp_path: Path) -> None:
    run_module(
        tmp_path,
        base.script("common", "panel")
        + MODEL
        + """
    const made_of = (tag) => ({ tag, kids: [], set: {}, append(...kids) { this.kids.push(...kids); },
      setAttribute(name, value) { this.set[name] = value; }, addEventListener() {} });
    globalThis.document = { createElement: made_of };
    const hostile = "<img src=x onerror=alert(1)>";
    const made = piece(["text", "", hostile], false);
    assert.equal(made.clipped, false);
    assert.deepEqual(made.node.kids[0].kids, [hostile]);
    const long = piece(["text", "", "x".repeat(5000)], false);
    assert.equal(long.clipped, true);
    assert.equal(long.node.kids[0].kids[0].length, CLIP + 2);
    assert.equal(piece(["text", "", "x".repeat(5000)], true).node.kids[0].kids[0].length, 5000);
    const tokens = tokenNodes({ ids: [5, 6], logprobs: [-3, 0], sampled: [1, 0], cut: 0 });
    const [first, second] = tokens[1].kids;
    assert.match(first.set.style, /rgba/);
    assert.match(first.set.title, /logprob -3 \\(5.0 %\\)/);
    assert.match(second.set.title, /not sampled/);
    const spans = spanNodes([["left", "a"], ["right", hostile]]);
    assert.deepEqual(spans.map((node) => [node.tag, node.kids[0]]), [["del", "a"], ["ins", hostile]]);
    """,
    )
