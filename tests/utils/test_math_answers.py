"""Mathematical equality through math-verify, in a process that can be ended."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import vfnb as vf


@pytest.mark.parametrize(
    ("response", "answer", "score"),
    [
        (r"So \boxed{\frac{1}{2}}", "0.5", 1.0),
        (r"\boxed{0.5}", r"\frac12", 1.0),
        (r"\boxed{x^2+2x+1}", "(x+1)^2", 1.0),
        (r"\boxed{\{3, 1\}}", r"\{1, 3\}", 1.0),
        (r"\boxed{10\%}", r"10\%", 1.0),
        (r"\boxed{7}", r"the answer is \boxed{7}", 1.0),
        (r"\boxed{8}", "7", 0.0),
        ("7", "7", 0.0),
        (r"\boxed{", "7", 0.0),
        (r"\boxed{}", "7", 0.0),
        (r"<think>\boxed{7}</think>\boxed{8}", "7", 0.0),
        (r"<think>\boxed{7}", "7", 0.0),
        (None, "7", 0.0),
    ],
)
def test_boxed_answers_are_compared_as_mathematics(response: str | None, answer: str, score: float) -> None:
    assert vf.verify_boxed_math_answer(response, answer) == score


def test_an_answer_that_would_take_for_ever_is_wrong_and_costs_its_time_only() -> None:
    assert vf.verify_boxed_math_answer(r"\boxed{1}", "1.0") == 1.0
    start = time.monotonic()
    hard = r"\boxed{" + "^".join(["9"] * 6).replace("^9", "^{9", 5) + "}" * 5 + "}"
    assert vf.verify_boxed_math_answer(hard, "7", timeout=1.0) == 0.0
    assert time.monotonic() - start < 30
    assert vf.verify_boxed_math_answer(r"\boxed{2/4}", "0.5") == 1.0


def test_it_works_from_many_threads() -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(
            threads.map(lambda i: vf.verify_boxed_math_answer(rf"\boxed{{{i}/2}}", f"{i / 2}"), range(24))
        )
    assert found == [1.0] * 24


def test_an_empty_reference_is_no_zero() -> None:
    with pytest.raises(ValueError, match="empty"):
        vf.verify_boxed_math_answer(r"\boxed{7}", " ")


def test_without_math_verify_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['math_verify'] = None\n"
        "import vfnb as vf\n"
        "from vfnb.errors import MissingExtra\n"
        "try:\n    vf.verify_boxed_math_answer('x', '1')\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'vfnb[math]'" in done.stdout


def test_the_library_is_not_loaded_into_this_process() -> None:
    code = (
        "import sys, vfnb as vf\n"
        "assert vf.verify_boxed_math_answer(r'\\boxed{2/4}', '0.5') == 1.0\n"
        "print('sympy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
