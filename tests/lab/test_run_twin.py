"""A run's twins: complete, bounded, failures on top."""

from __future__ import annotations

from dataclasses import replace

from support.html_rules import check_bundle
from support.views import HOSTILE, rows, view

from vfnb.lab.display import run_bundle, run_line, run_repr, run_text


def test_both_twins_tell_the_same() -> None:
    bundle = run_bundle(view(reused=6))
    page = check_bundle(bundle)
    for text in (bundle["text/plain"], page.text):
        for fact in (
            "sums-1234", "finished", "16 of 16", "4 failed", "6 reused, 10 run", "taskset Sums",
            "model scripted", "harness null", "0.5", "pass@1", "pass@2", "4 errors", "1.6k" , "$0.016",
            "runs/sums-1234", "task 0",
            "UpstreamConnection at model: cannot connect to 127.0.0.1:1; start the server",
        ):  # fmt: skip
            assert fact in text.replace("1,600", "1.6k"), fact


def test_failures_come_first() -> None:
    text = run_text(view())
    assert text.splitlines()[1] == "4 of 16 rollouts failed (not counted as reward 0):"
    html = run_bundle(view())["text/html"]
    assert html.index("rollouts failed") < html.index("harness null")


def test_a_run_that_stopped_says_why() -> None:
    bundle = run_bundle(view(8, state="failed", error="budget of $1 is spent; raise max_cost"))
    check_bundle(bundle)
    assert "run stopped: budget of $1" in bundle["text/plain"].splitlines()[1]
    assert "✗ failed" in bundle["text/html"]
    assert bundle["text/html"].index("run stopped") < bundle["text/html"].index("taskset Sums")


def test_a_big_run_is_cut_and_says_so() -> None:
    many = rows(500, 4)
    bundle = run_bundle(view(2000, 2000, rows=many[:60], rows_total=2000))
    page = check_bundle(bundle)
    assert "50 of 2000 rollouts shown; run.rewards has all" in page.text
    assert "of 2000 rollouts shown; run.rewards has all" in bundle["text/plain"]


def test_a_run_before_its_first_result() -> None:
    bundle = run_bundle(view(0, 40, running=8, eta_s=200.0))
    page = check_bundle(bundle)
    assert "0 of 40 finished · 8 running" in page.text
    assert "3 min 20 s left" in bundle["text/plain"]
    assert "<progress" in bundle["text/html"]
    without = run_bundle(view(0, 40, summary=None, rows=(), rows_total=0, failed=2))
    check_bundle(without)
    assert "2 of 40 rollouts failed" in without["text/plain"]


def test_untrusted_text_is_shown_as_text() -> None:
    some = [replace(row, name=HOSTILE, message=HOSTILE * 500, stop=HOSTILE, error=HOSTILE) for row in rows()]
    bundle = run_bundle(
        view(
            name=HOSTILE,
            rows=some * 4,
            error=HOSTILE * 100,
            notes=(HOSTILE,) * 30,
            model=HOSTILE,
            dir=HOSTILE,
        )
    )
    page = check_bundle(bundle)
    assert "<script>" in page.text
    assert "<script>" not in bundle["text/html"]
    assert "<a " not in bundle["text/html"]


def test_one_line_and_repr() -> None:
    running = view(8, running=4, eta_s=3.0)
    assert run_line(running) == (
        "sums-1234 8/16 · 4 running · 2 failed "
        "(UpstreamConnection: cannot connect to 127.0.0.1:1; start th…) · "
        "reward 0.5 ± 0.17 · 880 tokens · $0.008 · 3 s left"
    )
    assert run_repr(view()) == "Run(sums-1234: finished, 16 of 16, reward 0.5 ± 0.096, 4 failed)"
    assert "\n" not in run_repr(view(name=HOSTILE))
