"""`vf.parse_judge_choice`: one clear verdict or None."""

from __future__ import annotations

import pytest

import vfnb as vf

YES_NO = ("yes", "no")
AB = ("A", "B")
GRADES = ("correct", "incorrect", "not attempted")


@pytest.mark.parametrize(
    ("text", "choices", "verdict"),
    [
        ("yes", YES_NO, "yes"),
        ("**Yes.**", YES_NO, "yes"),
        ("NO\n", YES_NO, "no"),
        ("The two agree, so yes.", YES_NO, "yes"),
        ("They do not differ in any way.\nyes", YES_NO, "yes"),
        ("<think>no, no, no</think>yes", YES_NO, "yes"),
        ("no it is... </think>\nyes", YES_NO, "yes"),
        ("Draft: \\boxed{A}\nFinal Judgment: B", AB, "B"),
        ("Draft: \\boxed{A}\nFinal Judgment:\nReasoning mentions B", AB, "A"),
        ("Draft: \\boxed{B}\nFinal Judgment: This is a \\boxed{B}", AB, "B"),
        ("Final Judgment: \\boxed{A}\nFinal Judgment: B", AB, "B"),
        ("Draft: \\boxed{A}\nAnswer: B", AB, "A"),
        ("Final verdict: incorrect", GRADES, "incorrect"),
        ("The grade: NOT ATTEMPTED", GRADES, "not attempted"),
        ("It is incorrect.", GRADES, "incorrect"),
        ('{"verdict": "yes"}', YES_NO, "yes"),
        ("4", ("3", "4"), "4"),
    ],
)
def test_a_clear_verdict(text: str, choices: tuple[str, ...], verdict: str) -> None:
    assert vf.parse_judge_choice(text, choices) == verdict


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("", YES_NO),
        ("I cannot say.", YES_NO),
        ("Maybe yes, maybe no.", YES_NO),
        ("yes\nno", YES_NO),
        ("This is not correct.", GRADES),
        ("It isn't really correct", GRADES),
        ("yesterday", YES_NO),
        ("44", ("3", "4")),
    ],
)
def test_no_verdict_or_an_ambiguous_one(text: str, choices: tuple[str, ...]) -> None:
    assert vf.parse_judge_choice(text, choices) is None
