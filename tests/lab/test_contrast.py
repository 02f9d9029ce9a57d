"""Two settings against each other, and their tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.html_rules import check_bundle
from support.views import HOSTILE

from vfnb.errors import ConfigError
from vfnb.lab.contrast import Contrasts, contrast
from vfnb.lab.grid import Grid

RANDOM = np.random.default_rng(3)


def by_task(values: list[list[float]]) -> dict[str, list[float]]:
    return {f"t{i}": each for i, each in enumerate(values)}


def test_zeros_and_ones_get_mcnemar_and_newcombe() -> None:
    before = [1.0] * 20 + [0.0] * 12 + [1.0] * 2 + [0.0] * 16
    after = [1.0] * 20 + [1.0] * 12 + [0.0] * 2 + [0.0] * 16
    found = contrast("a", "b", by_task([[x] for x in before]), by_task([[x] for x in after]))
    assert (found.test, found.interval, found.better, found.equal, found.worse) == (
        "mcnemar",
        "newcombe",
        12,
        36,
        2,
    )
    assert found.difference == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.0562, 0.3292), abs=5e-5)  # Newcombe 1998, table II
    assert found.p == pytest.approx(stats.binomtest(2, 14).pvalue)
    assert found.warnings == ()


def test_several_rollouts_count_once_a_task() -> None:
    a = by_task([[0, 0, 1, 0], [1, 1, 1, 1], [0, 1], [0.5]])
    b = by_task([[1, 0, 1, 0], [1, 1, 1, 1], [1, 1], []]) | {"t9": [1.0]}
    found = contrast("a", "b", a, b)
    assert (found.tasks, found.unpaired) == (3, 2)
    assert found.difference == pytest.approx((0.25 + 0 + 0.5) / 3)
    assert found.mean_a == pytest.approx((0.25 + 1 + 0.5) / 3)
    assert (found.test, found.interval) == ("sign-flip", "t")
    assert "no result could be significant at 0.05 (least p 0.25)" in found.warnings[0]
    assert "2 tasks have a value under one setting only and are left out" in found.warnings


@pytest.mark.parametrize(
    ("tasks", "interval", "test"),
    [
        (5, "t", "sign-flip"),
        (6, "exact", "sign-flip"),
        (16, "exact", "sign-flip"),
        (17, "bca", "sign-flip"),
        (40, "bca", "sign-flip, sampled"),
    ],
)
def test_the_method_follows_from_the_number_of_tasks(tasks: int, interval: str, test: str) -> None:
    a = by_task([[x] for x in RANDOM.normal(0, 1, tasks)])
    b = by_task([[x] for x in RANDOM.normal(0.1, 1, tasks)])
    found = contrast("a", "b", a, b)
    assert (found.interval, found.test) == (interval, test)
    assert found.low is not None and found.high is not None and found.difference is not None
    assert found.low < found.difference < found.high
    assert any("only" in warning for warning in found.warnings) == (tasks < 20)
    assert any("not shown to be equal" in warning for warning in found.warnings) == ((found.p or 0) > 0.05)
    other = contrast("b", "a", b, a)
    assert (other.p, other.better) == (pytest.approx(found.p, abs=0.01), found.worse)


def test_the_interval_agrees_with_the_test_and_with_the_t_test() -> None:
    wrong = 0
    for _ in range(60):
        gaps = RANDOM.normal(0.5, 1, 12)
        found = contrast("a", "b", by_task([[0.0]] * 12), by_task([[x] for x in gaps]))
        assert found.p is not None and found.low is not None and found.high is not None
        assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)
        wrong += (found.p <= 0.05) != (stats.ttest_1samp(gaps, 0).pvalue <= 0.05)
    assert wrong <= 6


def test_a_difference_without_spread_has_no_interval() -> None:
    found = contrast("a", "b", by_task([[0.1], [0.3], [0.2]] * 10), by_task([[0.2], [0.4], [0.3]] * 10))
    assert found.low is None and found.detectable is None and found.p is not None and found.p < 0.01
    assert "all tasks differ by the same amount: no interval" in found.warnings
    same = contrast("a", "b", by_task([[0.1]] * 8), by_task([[0.1]] * 8))
    assert same.p == 1.0 and same.difference == 0.0
    assert contrast("a", "b", {}, {}).warnings == ("0 tasks in common: nothing to compare",)


def test_several_contrasts_are_corrected_together() -> None:
    base = by_task([[x] for x in RANDOM.normal(0, 1, 30)])
    items = [
        contrast("base", f"s{i}", base, {t: [x[0] + shift + RANDOM.normal(0, 0.5)] for t, x in base.items()})
        for i, shift in enumerate((0.0, 0.2, 0.4))
    ]
    empty = contrast("base", "none", base, {})
    found = Contrasts.of(
        [*items, empty], y="reward", level=0.95, correction="holm", notes=["s1: 2 of 9 missing"]
    )
    assert [item.p_adjusted >= item.p for item in found[:3]] == [True] * 3  # type: ignore[operator,index,union-attr]
    assert found[3].p_adjusted is None
    frame = found.frame()
    assert list(frame.b) == ["s0", "s1", "s2", "none"] and str(frame.p_adjusted.dtype) == "Float64"
    page = check_bundle(found._repr_mimebundle_())
    for fact in ("against base", "p (Holm)", "s2", "s1: 2 of 9 missing", "MDE"):
        assert fact in str(found) and fact in page.text
    single = Contrasts.of(items[:1], y="reward", level=0.95, correction="holm")
    assert "Holm" not in str(single) and repr(single) == "<1 contrasts of reward>"


def test_one_contrast_is_said_in_words() -> None:
    draws = np.random.default_rng(7)
    base = by_task([[x] for x in draws.normal(0, 1, 30)])
    more = {task: [x[0] + 1.5 + draws.normal(0, 0.1)] for task, x in base.items()}
    up, down = contrast("base", "more", base, more), contrast("more", "base", more, base)
    found = Contrasts.of([up, down], y="reward", level=0.95, correction="none")
    for item, way in zip(
        found, ("more is higher than base by 1.", "base is lower than more by 1."), strict=True
    ):
        low, high = sorted(abs(end) for end in (item.low, item.high) if end is not None)
        told = found.words[found.items.index(item)]
        assert told.startswith(way) and told.endswith(f" ({low:.3g} to {high:.3g}), p <0.001")
        assert told in str(found)
    same = contrast("base", "same", base, {t: [x[0] + draws.normal(0, 1)] for t, x in base.items()})
    (words,) = Contrasts.of([same], y="reward", level=0.9999, correction="holm").words
    assert words.startswith("same is not shown to differ from base, p = ")
    assert words.endswith(" would show in 4 of 5 such studies")
    none = Contrasts.of([contrast("base", "none", base, {})], y="reward", level=0.95, correction="holm")
    assert none.words == ["none and base cannot be compared"]


def test_tables_in_all_forms(tmp_path: Path) -> None:
    grid = Grid("A 50% title", ("a_b", "c|d"), (("1 & 2", "x|y_z"), ("{<}", "~^\\")), ("note #1",))
    assert r"50% title" in grid.latex.splitlines()[0] and grid.latex.splitlines()[0].startswith("% ")
    assert r"a\_b & c|d \\" in grid.latex and r"1 \& 2 & x|y\_z \\" in grid.latex
    assert r"\{$<$\} & \textasciitilde{}\textasciicircum{}\textbackslash{} \\" in grid.latex
    assert grid.markdown.splitlines()[:3] == ["| a_b | c\\|d |", "| --- | --- |", "| 1 & 2 | x\\|y_z |"]
    check_bundle(grid._repr_mimebundle_())
    for suffix, form in {
        ".tex": grid.latex,
        ".md": grid.markdown,
        ".txt": grid.text,
        ".html": grid.html,
    }.items():
        assert grid.save(tmp_path / f"t{suffix}").read_text() == form + "\n"
    with pytest.raises(
        ConfigError, match=r"cannot save a table as '\.csv'; use \.txt, \.md, \.html or \.tex"
    ):
        grid.save(tmp_path / "t.csv")


def test_hostile_names_and_many_rows() -> None:
    grid = Grid(HOSTILE, (HOSTILE,) * 6, ((HOSTILE,) * 6,) * 300, (HOSTILE,) * 30)
    page = check_bundle(grid._repr_mimebundle_())
    assert "50 of 300 rows shown" in page.text and "\n" not in grid.latex.splitlines()[0]
    assert all(line.startswith("%") for line in grid.latex.splitlines()[:31])
