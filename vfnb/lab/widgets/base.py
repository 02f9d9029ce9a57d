"""What all views share: where their code is, how large text is fetched, what a saved notebook shows."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
from traitlets import Dict

__all__ = ["WIDGET", "View", "script", "style"]

WIDGET = "application/vnd.jupyter.widget-view+json"

_HERE = Path(__file__).parent

log = logging.getLogger("vfnb.lab")


@cache
def script(*names: str) -> str:
    """Script files as one ES module; the last one has the default export."""
    return "\n".join((_HERE / f"{name}.js").read_text(encoding="utf-8") for name in names)


@cache
def style(*names: str) -> str:
    """Style sheets as one."""
    return "\n".join((_HERE / f"{name}.css").read_text(encoding="utf-8") for name in names)


class View(anywidget.AnyWidget):
    """A view. The page draws from the traits alone; displayed, it carries a static twin for saved notebooks.

    Large text is not part of the state: the page puts keys into `wanted`, and `detail` has the answers.
    """

    wanted = Dict({}).tag(sync=True)
    """`{"keys": [...], "n": int}`, written by the page; `n` makes each question a change."""
    detail = Dict({}).tag(sync=True)
    """Answers to the last question, by key."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.observe(self._answer, "wanted")

    def _answer(self, change: Any) -> None:
        self.detail = {key: self._detail(key) for key in change["new"].get("keys", [])[:200]}

    def _detail(self, key: str) -> dict[str, Any]:
        """One answer; what goes wrong is told in the view."""
        try:
            return self.lookup(key)
        except Exception as error:
            log.warning("a view could not show %s", key, exc_info=True)
            return {"error": f"{type(error).__name__}: {error}"[:500]}

    def lookup(self, key: str) -> dict[str, Any]:
        """What stands behind a key that the page asks for."""
        raise KeyError(key)

    def twin(self) -> dict[str, str]:
        """The static twin: `text/plain` and `text/html`."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, **self.twin()}, metadata
