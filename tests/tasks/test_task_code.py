"""Digests of a task's code: what asks for new scores, what asks for new rollouts, what asks for neither."""

from __future__ import annotations

from typing import Any

import pytest
from support.cells import run_cell

from vfnb.tasks import rollout_code, score_code

CELL = '''
import vfnb as vf

def clean(text):
    return text.strip()

class Sums(vf.Task):
    def setup(self, trace):
        trace.info["a"] = 1

    def finalize(self, trace):
        trace.info["b"] = 1

    def parsed(self, trace):
        return clean(trace.last_reply)

    @vf.reward
    def right(self, trace):
        """Whether it is right."""
        return float(self.parsed(trace) == "4")

    @vf.metric
    def length(self, trace):
        return len(trace.last_reply)
'''


def codes(source: str) -> tuple[str | None, str | None]:
    cls: Any = run_cell(source)["Sums"]
    return rollout_code(cls), score_code(cls)


@pytest.mark.parametrize(
    ("edit", "rollout", "scores"),
    [
        (('"4"', '"5"'), False, True),
        (("text.strip()", "text.lower()"), False, True),
        (("return clean(", "return clean(' ' + "), False, True),
        (("len(trace.last_reply)", "len(trace.last_reply) / 2"), False, True),
        (('trace.info["b"] = 1', 'trace.info["b"] = 2'), False, True),
        (("@vf.reward", "@vf.reward(weight=0.5)"), False, True),
        (('trace.info["a"] = 1', 'trace.info["a"] = 2'), True, False),
        (('"""Whether it is right."""', '"""Other words."""'), False, False),
        (("return float(", "# a comment\n        return float("), False, False),
    ],
)
def test_what_an_edit_changes(edit: tuple[str, str], rollout: bool, scores: bool) -> None:
    assert edit[0] in CELL
    before, after = codes(CELL), codes(CELL.replace(*edit))
    assert None not in before
    assert (before[0] != after[0], before[1] != after[1]) == (rollout, scores)


def test_the_same_cell_again_is_the_same() -> None:
    assert codes(CELL) == codes(CELL)


def test_unknown_source_has_no_digest() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, space)
    assert score_code(space["Sums"]) is None
    assert rollout_code(space["Sums"]) is None
