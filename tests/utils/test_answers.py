"""Answer files, boxed and numeric answers."""

from __future__ import annotations

import pytest
from support.boxes import in_box

import vfnb as vf
from vfnb.errors import RuntimeFault
from vfnb.runtimes import Runtime


def _trace(reply: str) -> vf.Trace:
    return vf.Trace(answer=reply)


@pytest.mark.parametrize("kind", ["inprocess", "subprocess"])
def test_the_answer_file_comes_before_the_last_reply(kind: str) -> None:
    async def work(box: Runtime) -> list[str]:
        trace = _trace("the reply")
        missing = await vf.read_answer_file_or_last_reply(box, "out/answer.txt", trace)
        await box.write("out/answer.txt", b" \n")
        empty = await vf.read_answer_file_or_last_reply(box, "out/answer.txt", trace)
        await box.write("out/answer.txt", "\ufeff caf\u00e9 \n".encode())
        return [missing, empty, await vf.read_answer_file_or_last_reply(box, "out/answer.txt", trace)]

    assert in_box(work, kind) == ["the reply", "the reply", "caf\u00e9"]


def test_a_path_that_is_no_file_is_not_hidden_by_the_last_reply() -> None:
    async def work(box: Runtime) -> None:
        await box.write("out/answer.txt", b"42")
        with pytest.raises(RuntimeFault, match="out"):
            await vf.read_answer_file_or_last_reply(box, "out", _trace("the reply"))

    in_box(work)


@pytest.mark.parametrize(
    ("text", "loose", "strict"),
    [
        (r"so \boxed{42}.", "42", "42"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}", r"\frac{1}{2}", r"\frac{1}{2}"),
        (r"\boxed {x} ", "x", "x"),
        (r"\fbox{y}", "y", "y"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}", r"\{1, 2\}"),
        (r"\boxed{\left\{x : x > 0\right.}", r"\left\{x : x > 0\right.", r"\left\{x : x > 0\right."),
        (r"\boxed{1} and \boxed{never closed", r"\boxed{1} and \boxed{never closed", ""),
        ("no box", "no box", ""),
        ("", "", ""),
    ],
)
def test_the_last_box_is_read_with_its_braces_balanced(text: str, loose: str, strict: str) -> None:
    assert vf.extract_boxed_answer(text) == loose
    assert vf.extract_boxed_answer(text, strict=True) == strict


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", 42),
        ("$1,234,567.50 in all", 1234567.5),
        ("1,2,3", 3),
        ("from 10-5", 5),
        ("it is -5", -5),
        ("it is \u22125", -5),
        ("1.5e3 steps", 1500),
        (".5", 0.5),
        ("#### 18", 18),
        ("v2 of a3", None),
        ("none", None),
        ("1e999", None),
    ],
)
def test_the_last_number_of_a_text(text: str, number: float | None) -> None:
    assert vf.extract_number(text) == number


def test_numeric_answers_are_compared_by_value() -> None:
    assert vf.verify_numeric_answer("Half of it is 9, so 1,000 in all.", "#### 1000") == 1.0
    assert vf.verify_numeric_answer(r"\boxed{18} of 20", 18) == 1.0
    assert vf.verify_numeric_answer("18.0", "18") == 1.0
    assert vf.verify_numeric_answer("17", "18") == 0.0
    assert vf.verify_numeric_answer("no idea", "18") == 0.0
    assert vf.verify_numeric_answer(None, "18") == 0.0
    assert vf.verify_numeric_answer("<think>is it 18?", "18") == 0.0
    assert vf.verify_numeric_answer("<think>17</think>18", "18") == 1.0
    assert vf.verify_numeric_answer("3.14", "3.14159", tolerance=1e-3) == 1.0
    assert vf.verify_numeric_answer("3.1", "3.14159", tolerance=1e-3) == 0.0


def test_a_reference_without_a_number_is_no_zero() -> None:
    with pytest.raises(ValueError, match="no number"):
        vf.verify_numeric_answer("18", "eighteen")
