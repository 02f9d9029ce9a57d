"""Sampled rollouts: prompt, completion, rewards; bounded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.html_rules import check_bundle
from support.talks import chain, failed, family
from support.views import HOSTILE

from vfnb.lab.kernel import show
from vfnb.lab.sample import print_prompt_completions_sample, sample


def test_a_sample_shows_prompt_completion_and_reward() -> None:
    samples = sample([family(), failed()], 2)
    bundle = samples._repr_mimebundle_()
    page = check_bundle(bundle)
    for text in (bundle["text/plain"], page.text, str(samples)):
        assert "2 of 2 rollouts" in text
        assert "How many?" in text
        assert "forty-two" in text
        assert "reward 1.0 (exact 1.0, short 0.5)" in text
        assert "error UpstreamConnection at model: cannot connect" in text
    assert repr(samples) == "Samples(2 of 2 rollouts)"
    assert samples[0].reward == 1.0


def test_the_draw_is_fixed_by_its_seed_and_keeps_the_order() -> None:
    traces = [chain(1, str(n)) for n in range(50)]
    one, two, other = sample(traces, 5, seed=1), sample(traces, 5, seed=1), sample(traces, 5, seed=2)
    assert list(one) == list(two) != list(other)
    places = [traces.index(trace) for trace in one]
    assert places == sorted(set(places))
    assert len(sample(traces[:2], 5)) == 2
    assert len(sample([], 3)) == 0


def test_many_and_hostile_samples_stay_in_bounds() -> None:
    samples = sample([family(HOSTILE) for _ in range(40)] + [chain(200, HOSTILE * 100)], 41)
    bundle = samples._repr_mimebundle_()
    page = check_bundle(bundle)
    assert "10 of 41 samples shown; print(samples) has all" in page.text
    assert "6 of 41 samples shown; print(samples) has all" in bundle["text/plain"]
    printed = str(samples)
    assert "\x1b" not in printed
    assert "50 of 399 messages shown" in printed


def test_show_prints_where_there_is_no_cell(capsys: pytest.CaptureFixture[str]) -> None:
    show({"text/plain": "plain", "text/html": "<b>rich</b>"})
    assert capsys.readouterr().out == "plain\n"


def test_print_takes_a_run_or_traces(capsys: pytest.CaptureFixture[str]) -> None:
    class Run:
        traces = [family(), failed()]

    print_prompt_completions_sample(Run(), n=1, seed=3)
    printed = capsys.readouterr().out
    print_prompt_completions_sample(Run.traces, n=1, seed=3)
    assert capsys.readouterr().out == printed
    assert printed.startswith("1 of 2 rollouts\n\n=== ")
    assert "--- completion" in printed


def test_the_room_loads_nothing_heavy() -> None:
    code = (
        "import sys, vfnb.lab, vfnb.lab.display, vfnb.lab.graphs, vfnb.lab.figures, vfnb.lab.progress\n"
        "print(sorted({'pandas', 'plotly', 'networkx', 'numpy', 'IPython', 'ipywidgets'} & set(sys.modules)))\n"
        "print(callable(vfnb.lab.schema))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )
    assert done.stdout == "[]\nTrue\n"
