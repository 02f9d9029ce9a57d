"""The views on a real page, in JupyterLab and Notebook 7: drawn, clicked, walked, saved and reopened."""

from __future__ import annotations

import time
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, expect
from support.browser import NotebookPage, notebook_page
from support.engines import chromium
from support.notebooks import write_notebook
from support.paths import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SET_UP = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import time
import vfnb as vf
from support.talks import bushy, family
from support.wordy import WordyTaskset, speaker
"""
# Resolves with the milliseconds from the start of the cell to the drawn graph.
OPEN_JS = """async () => {
  const start = performance.now();
  const run = window.jupyterapp.commands.execute("notebook:run-cell");
  const drawn = () => document.querySelector(".vfnb-panel[data-nodes='2000'] canvas[data-drawn]");
  while (!drawn() && performance.now() - start < 20000) await new Promise(requestAnimationFrame);
  const took = performance.now() - start;
  await run;
  return took;
}"""
# Drags the graph to and fro; resolves with the sorted times between frames.
PAN_JS = """async () => {
  const canvas = document.querySelector(".vfnb-panel[data-nodes='2000'] canvas");
  const box = canvas.getBoundingClientRect();
  canvas.setPointerCapture = () => {};
  const fire = (type, x) => canvas.dispatchEvent(
    new PointerEvent(type, { clientX: x, clientY: box.top + 40, pointerId: 1, bubbles: true }));
  const times = [];
  let last = performance.now();
  fire("pointerdown", box.right - 5);
  for (let step = 0; step < 200; step++) {
    fire("pointermove", box.right - 5 - (step % 100) * 4);
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - last);
    last = performance.now();
  }
  fire("pointerup", box.left);
  return times.sort((a, b) => a - b);
}"""


@pytest.mark.parametrize("app", ["jupyterlab", "notebook"])
def test_every_view_is_drawn_clicked_and_followed(app: str, tmp_path: Path) -> None:
    notebook = write_notebook(
        tmp_path / "views.ipynb",
        SET_UP,
        "run = vf.evaluate(WordyTaskset(), model=speaker(wait_s=1.5), rollouts=6, concurrency=4, dir='live')",
        "rollouts = run.view()\nrollouts",
        "time.sleep(5)\nslept = True",
        "run.wait(quiet=True)\nlab = run.reward_lab()\nlab",
        "vf.diff(run.traces[0], run.traces[1]).view()",
        "view = family('<b>hostile</b>').view()\nview",
        "big = bushy(2000).view()\nbig",
        "time.sleep(60)",
    )
    with notebook_page(notebook, chromium=chromium(), timeout_s=280, app=app) as opened:
        opened.wait_idle()
        opened.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        a_run_is_followed_while_another_cell_sleeps(opened)
        an_interrupt_gives_the_prompt_back(opened)
        rewards_are_moved(opened)
        a_rollout_opens_and_differences_are_walked(opened)
        a_trace_is_clicked_walked_and_searched(opened)
        opened.settle()
        assert opened.problems == []


def prompt(opened: NotebookPage, cell: int) -> Locator:
    return opened.page.locator(".jp-CodeCell").nth(cell).locator(".jp-InputPrompt")


def a_run_is_followed_while_another_cell_sleeps(opened: NotebookPage) -> None:
    page = opened.page
    table = page.locator(".vfnb-run-view")
    expect(table.locator("tbody tr").first).to_be_attached(timeout=60_000)
    done = table.locator("[data-done]")
    sleeping = prompt(opened, 3)
    expect(sleeping).to_have_text("[*]:", timeout=60_000)
    seen = set()
    while sleeping.inner_text() == "[*]:":
        seen.add(done.get_attribute("data-done"))
        page.wait_for_timeout(100)
    assert len(seen) >= 3


def an_interrupt_gives_the_prompt_back(opened: NotebookPage) -> None:
    last = prompt(opened, 8)
    expect(last).to_have_text("[*]:", timeout=60_000)
    opened.expect(".vfnb-panel[data-nodes='2000']")
    begin = time.monotonic()
    opened.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:interrupt-kernel'); }")
    expect(last).to_have_text("[9]:", timeout=10_000)
    assert time.monotonic() - begin < 2
    opened.wait_idle()


def rewards_are_moved(opened: NotebookPage) -> None:
    page = opened.page
    slider = page.get_by_role("slider", name="weight of thorough")
    slider.scroll_into_view_if_needed(timeout=60_000)
    chart = page.locator(".vfnb-lab-view svg.vfnb-chart")
    before = chart.get_attribute("data-after")
    slider.focus()
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    expect(page.locator(".vfnb-code code")).to_contain_text("'thorough': 0.38")
    expect(chart).not_to_have_attribute("data-after", before or "")


def a_rollout_opens_and_differences_are_walked(opened: NotebookPage) -> None:
    page = opened.page
    table = page.locator(".vfnb-run-view")
    table.get_by_role("searchbox", name="filter the rollouts").fill("correct = 1")
    expect(table.locator("tbody tr")).not_to_have_count(48)
    table.locator("tbody tr").first.click()
    expect(table.locator(".vfnb-card").nth(1)).to_contain_text("yes")
    diff = page.locator(".vfnb-diff-view")
    diff.get_by_role("button", name="next difference").click()
    expect(diff.locator(".vfnb-line[aria-current]")).to_be_attached()


def a_trace_is_clicked_walked_and_searched(opened: NotebookPage) -> None:
    page = opened.page
    view = page.locator(".vfnb-trace-view", has=page.locator("[data-drawn='13']"))
    view.scroll_into_view_if_needed()
    canvas = view.locator("canvas")
    assert canvas.get_attribute("data-drawn") == "13"
    chosen = view.locator(".vfnb-card[aria-current]")
    # The fifth mark of the first lane is the call of the subagent.
    places = page.evaluate(
        "() => document.querySelector(`canvas[data-drawn='13']`).getBoundingClientRect().width"
    )
    canvas.click(position={"x": 22 + 4 * min(39, (places - 44) / 10), "y": 30})
    expect(chosen).to_contain_text("I had better ask.")
    expect(chosen).to_contain_text("count all the files in the folder")
    expect(view.locator(".vfnb-inspect")).to_contain_text("sampled from the model")
    # Arrows walk, and the notebook's own shortcuts stay quiet.
    cells = page.locator(".jp-Cell").count()
    page.keyboard.press("ArrowDown")
    expect(chosen).to_contain_text("There are exactly 42 files in it<b>hostile</b>")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(chosen).to_contain_text("Go on.")
    page.keyboard.press("/")
    page.keyboard.type("forty")
    expect(view.get_by_text("1 found")).to_be_visible()
    page.keyboard.press("Enter")
    expect(chosen).to_contain_text("forty-two")
    view.get_by_role("tab", name="Fork").click()
    expect(view.locator(".vfnb-inspect ins").first).to_be_visible()
    expect(view.locator(".vfnb-inspect")).to_contain_text("resample")
    view.get_by_role("tab", name="Request").click()
    expect(view.locator(".vfnb-inspect")).to_contain_text('"content": "Go on."')
    assert page.locator(".jp-Cell").count() == cells
    assert page.locator(".vfnb-view b:text-is('hostile')").count() == 0


def slow_frame(opened: NotebookPage) -> float:
    """Milliseconds that 95% of the frames of a pan stay below; the best of three, for a machine that is shared."""
    pans = [opened.page.evaluate(PAN_JS) for _ in range(3)]
    return float(min(times[int(0.95 * len(times))] for times in pans))


def test_a_trace_of_2000_messages_opens_and_pans(tmp_path: Path) -> None:
    notebook = write_notebook(
        tmp_path / "big.ipynb", SET_UP + "trace = bushy(2000)\nfamily().view()", "trace.view()"
    )
    with notebook_page(notebook, chromium=chromium(), timeout_s=200) as opened:
        page = opened.page
        opened.wait_idle()
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-cell')")
        opened.wait_idle()
        opened.expect(".vfnb-panel[data-nodes='13'] canvas[data-drawn]")
        page.locator(".jp-CodeCell .jp-InputArea-editor").nth(1).click()
        assert page.evaluate(OPEN_JS) < 2000
        panel = page.locator(".vfnb-panel[data-nodes='2000']")
        assert slow_frame(opened) < 50
        panel.get_by_role("button", name="fold").click()
        panel.get_by_role("button", name="show the whole graph").click()
        opened.settle()
        assert int(panel.locator("canvas").get_attribute("data-drawn") or 0) == 2000
        assert slow_frame(opened) < 50
        for _ in range(8):
            panel.get_by_role("button", name="zoom in").click()
        opened.settle()
        assert slow_frame(opened) < 50
        assert opened.problems == []


def test_reopened_untrusted_it_shows_the_twin(tmp_path: Path) -> None:
    from support.talks import family

    data, _ = family().view()._repr_mimebundle_()
    notebook = write_notebook(tmp_path / "saved.ipynb", "trace.view()")
    saved = nbformat.read(notebook, as_version=4)
    saved.cells[0].execution_count = 1
    saved.cells[0].outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=1)]
    nbformat.write(saved, notebook)
    with notebook_page(notebook, chromium=chromium(), timeout_s=200) as opened:
        opened.expect(".jp-OutputArea-output .vfnb-trace img", ".vfnb-trace details")
        opened.settle()
        assert opened.page.locator(".vfnb-trace-view").count() == 0
        assert opened.problems == []
