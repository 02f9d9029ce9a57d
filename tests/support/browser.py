"""Open a notebook in a real JupyterLab and a real Chromium, and see what is on the page.

As a library:

    with notebook_page(path) as page:
        page.run_all()
        page.expect(".vfnb-trace")
    assert not page.problems

On the command line (exit status 1 and one line per problem when something is wrong):

    python -m support.browser NOTEBOOK --expect SELECTOR --click SELECTOR --then SELECTOR --screenshot OUT.png

Problems are: a cell that raised or never ran, a selector that is missing, an error on the page or its
console, and a request to any host but loopback (such hosts are made unreachable too, so a view that needs
one shows as broken). The notebook file is not changed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, sync_playwright
from playwright.sync_api import Error as BrowserError

from support.lab import lab_server

__all__ = ["NotebookPage", "StepFailed", "blank_page", "notebook_page"]

LOOPBACK = {"127.0.0.1", "localhost", "::1"}
OWN_ERRORS = {"Cannot read properties of undefined (reading 'schema')"}
"""What Notebook 7.6 reports of itself at each start, also for an empty notebook and without any setting."""
SETTLE_S = 0.5  # what the page still does a moment after an action
ASK_KERNEL_S = 20.0
SELECTOR_S = 60.0
TALLEST_SHOT = 12_000

# The page only knows the kernel status that it last heard; `ask` brings a new message.
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
STATUS_JS = (
    f"() => {{ const k = {KERNEL}; return k ? `${{k.connectionStatus}} ${{k.status}}` : 'no kernel' }}"
)
ASK_JS = f"() => {{ {KERNEL}?.requestKernelInfo().catch(() => null) }}"
# Resolves when every cell is done. `evaluate` has no timeout of its own, hence the race.
RUN_ALL_JS = """(ms) => Promise.race([
  window.jupyterapp.commands.execute("notebook:run-all-cells").then(() => true),
  new Promise((resolve) => setTimeout(() => resolve(false), ms)),
])"""
CELLS_JS = "() => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells"
HEIGHT_JS = """() => Math.max(0, ...[...document.querySelectorAll(".jp-WindowedPanel-outer")]
  .map((panel) => panel.scrollHeight))"""


class StepFailed(Exception):
    """A step on which the later ones depend did not succeed."""


class NotebookPage:
    """One notebook on the screen. `problems` collects what went wrong, `page` is Playwright's page."""

    def __init__(self, page: Page, timeout_s: float) -> None:
        self.page = page
        self.problems: list[str] = []
        self.log: list[str] = []
        self._start = time.monotonic()
        self._end = self._start + timeout_s
        page.on("pageerror", lambda error: self._error(str(error)))
        page.on("console", self._console)
        page.on("request", lambda request: self._request(request.url))
        page.on("websocket", lambda socket: self._request(socket.url))

    def open(self, url: str) -> None:
        """Load the page and wait for the first cell."""
        for attempt in range(3):
            try:
                self.page.goto(url, timeout=self._left_ms())
                break
            except BrowserError as error:
                # Chromium drops every connection when a network interface comes or goes.
                if attempt == 2 or "ERR_NETWORK_CHANGED" not in str(error):
                    raise
                self.problems.clear()
                time.sleep(1)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=self._left_ms())
        self._note("open")

    def wait_idle(self) -> None:
        """Wait until the page is connected to a kernel that has nothing to do.

        Raises:
            StepFailed: if that does not happen in time.
        """
        ask_at = time.monotonic() + ASK_KERNEL_S
        while (status := self.page.evaluate(STATUS_JS)) != "connected idle":
            if time.monotonic() > self._end:
                raise StepFailed(f"kernel not idle in time: {status}")
            if time.monotonic() > ask_at:
                self.page.evaluate(ASK_JS)
                ask_at += ASK_KERNEL_S
            self.page.wait_for_timeout(100)

    def run_all(self) -> None:
        """Run every cell; a cell that raised or did not run is a problem.

        Raises:
            StepFailed: if the kernel does not start or the cells do not end in time.
        """
        self.wait_idle()
        self._note("kernel idle")
        if not self.page.evaluate(RUN_ALL_JS, self._left_ms()):
            raise StepFailed("the cells did not finish in time")
        self.wait_idle()
        self._note("cells run")
        for problem in _cell_problems(self.cells()):
            self._problem(problem)

    def cells(self) -> list[dict[str, Any]]:
        """The notebook's cells as the page holds them, in nbformat's form."""
        cells: list[dict[str, Any]] = self.page.evaluate(CELLS_JS)
        return cells

    def expect(self, *selectors: str) -> None:
        """Wait for each selector to be in the page, in sight or not (the notebook scrolls in a panel)."""
        for selector in selectors:
            try:
                where = self.page.locator(selector).first
                where.wait_for(state="attached", timeout=self._left_ms(SELECTOR_S))
            except BrowserError:
                self._problem(f"nothing on the page for {selector!r}")
        self._note("selectors seen")

    def click(self, selector: str) -> None:
        """Click, and wait until the kernel has answered."""
        target = self.page.locator(selector).first
        target.scroll_into_view_if_needed(timeout=self._left_ms(SELECTOR_S))
        target.click(timeout=self._left_ms(SELECTOR_S))
        self.settle()
        self.wait_idle()

    def settle(self) -> None:
        """Leave the page a moment, for late messages and animations."""
        self.page.wait_for_timeout(1000 * SETTLE_S)

    def screenshot(self, path: Path) -> None:
        """Save a picture of the whole notebook: the window is made as tall as its panel."""
        height = min(self.page.evaluate(HEIGHT_JS) + 150, TALLEST_SHOT)
        self.page.set_viewport_size({"width": 1400, "height": max(1000, height)})
        self.settle()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

    def _left_ms(self, at_most_s: float = float("inf")) -> float:
        return 1000 * max(1.0, min(self._end - time.monotonic(), at_most_s))

    def _note(self, step: str) -> None:
        self.log.append(f"{time.monotonic() - self._start:6.1f} s  {step}")

    def _problem(self, text: str) -> None:
        text = text[:800]
        if text not in self.problems:
            self.problems.append(text)

    def _error(self, text: str) -> None:
        if text not in OWN_ERRORS:
            self._problem(f"page error: {text}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._problem(f"console error: {message.text} ({message.location.get('url', '')[:200]})")

    def _request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https", "ws", "wss"} and parts.hostname not in LOOPBACK:
            self._problem(f"request outside loopback: {url[:300]}")


def _cell_problems(cells: list[dict[str, Any]]) -> Iterator[str]:
    for index, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        if "".join(cell["source"]).strip() and cell["execution_count"] is None:
            yield f"cell {index} was not executed"  # run-all stops at the first error
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                yield f"cell {index} raised {output['ename']}: {output['evalue'][:300]}"


@contextmanager
def notebook_page(
    notebook: Path, *, chromium: str | None = None, timeout_s: float = 300, app: str = "jupyterlab"
) -> Iterator[NotebookPage]:
    """Start JupyterLab (or `app="notebook"`) on the notebook's folder and Chromium on it; nothing is run yet."""
    notebook = notebook.resolve()
    with lab_server(notebook.parent, app=app) as lab, blank_page(chromium, timeout_s) as page:
        page.open(lab.url(notebook.name))
        yield page


@contextmanager
def blank_page(chromium: str | None = None, timeout_s: float = 300) -> Iterator[NotebookPage]:
    """Chromium with an empty page that collects problems and reaches loopback only."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_chromium_flags())
        try:
            yield NotebookPage(browser.new_page(viewport={"width": 1400, "height": 1000}), timeout_s)
        finally:
            browser.close()


def _chromium_flags() -> list[str]:
    only_loopback = "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost"
    return ["--disable-gpu", "--no-proxy-server", f"--host-resolver-rules={only_loopback}"]


def check(args: argparse.Namespace) -> list[str]:
    """Run the notebook as the command line says and return the problems."""
    with notebook_page(args.notebook, chromium=args.chromium, timeout_s=args.timeout) as page:
        try:
            page.run_all()
            page.expect(*args.expect)
            for selector in args.click:
                page.click(selector)
            page.expect(*args.then)
            page.settle()
        except (StepFailed, BrowserError) as error:
            page.problems.append(f"stopped: {str(error)[:1000]}")
        if args.screenshot:
            page.screenshot(args.screenshot)
        print("\n".join(page.log))
        return page.problems


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run one notebook in a real browser.")
    selectors: dict[str, Any] = {"nargs": "+", "action": "extend", "default": [], "metavar": "SELECTOR"}
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--expect", **selectors, help="on the page after the cells have run")
    parser.add_argument("--click", **selectors, help="clicked in order after that")
    parser.add_argument("--then", **selectors, help="on the page after the clicks")
    parser.add_argument("--screenshot", type=Path, metavar="PNG")
    parser.add_argument("--timeout", type=float, default=300, metavar="S")
    parser.add_argument("--chromium", default=shutil.which("chromium"), metavar="PATH")
    args = parser.parse_args(argv)
    problems = check(args)
    for problem in problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
