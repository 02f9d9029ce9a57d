"""The judge `rubric`: criteria from a file or inline, weights, choices, drops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cells import module_file
from support.judging import Data, judged, scripted

import vfnb as vf
from vfnb.errors import ConfigError, ScoringError

TOML = """
[[criteria]]
name = "clear"
text = "Is the answer easy to read?"
weight = 3.0

[[criteria]]
name = "depth"
text = "How deep is it?"
choices = ["shallow", "fair", "deep"]

[[criteria]]
name = "outcome"
text = "What came out?"
choices = { solved = 1.0, partly = 0.25, failed = -1.0 }
drop = ["task_defect"]
"""


def reply(**answers: str) -> str:
    verdicts = [{"name": name, "reason": "so", "answer": answer} for name, answer in answers.items()]
    return json.dumps({"verdicts": verdicts})


GOOD = reply(clear="yes", depth="fair", outcome="partly")


def rubric(*replies: Any, **settings: Any) -> vf.RubricJudgeConfig:
    return vf.RubricJudgeConfig(client=scripted(*replies), **settings)


@pytest.mark.parametrize("form", ["toml", "json", "list", "inline"])
def test_criteria_are_metrics_and_their_weighted_average_the_reward(form: str, tmp_path: Path) -> None:
    import tomllib

    criteria = tomllib.loads(TOML)["criteria"]
    texts = {"toml": TOML, "json": json.dumps({"criteria": criteria}), "list": json.dumps(criteria)}
    if form == "inline":
        settings: dict[str, Any] = {"criteria": criteria}
    else:
        file = tmp_path / ("rubric.toml" if form == "toml" else "rubric.json")
        file.write_text(texts[form])
        settings = {"path": str(file)}
    trace = judged(rubric(GOOD, **settings))
    assert trace.metrics == {
        "rubric/clear": 1.0,
        "rubric/depth": 0.5,
        "rubric/outcome": 0.25,
        "rubric/outcome/solved": 0.0,
        "rubric/outcome/partly": 1.0,
        "rubric/outcome/failed": 0.0,
        "rubric/outcome/task_defect": 0.0,
    }
    assert trace.rewards["rubric"].value == pytest.approx((3 * 1.0 + 0.5 + 0.25) / 5)
    assert trace.dropped is None
    assert trace.judge_calls[0].verdict["depth"] == {"answer": "fair", "reason": "so"}


def test_a_drop_answer_drops_the_trace_and_records_no_reward() -> None:
    criteria = [
        {"name": "clear", "text": "clear?"},
        {"name": "outcome", "text": "what?", "choices": {"solved": 1, "failed": 0}, "drop": ["task_defect"]},
    ]
    trace = judged(rubric(reply(clear="yes", outcome="TASK_DEFECT"), criteria=criteria))
    assert trace.dropped == "rubric: outcome=task_defect"
    assert trace.rewards["rubric"].value is None
    assert trace.reward is None
    assert trace.metrics["rubric/outcome"] is None
    assert trace.metrics["rubric/outcome/task_defect"] == 1.0
    assert trace.metrics["rubric/clear"] == 1.0


def test_a_drop_answer_of_a_list_is_no_level() -> None:
    criterion = {"name": "c", "text": "?", "choices": ["bad", "fair", "good"], "drop": "unclear"}
    for answer, value in (("bad", 0.0), ("fair", 0.5), ("good", 1.0)):
        trace = judged(rubric(reply(c=answer), criteria=[criterion]))
        assert trace.rewards["rubric"].value == value
        assert trace.metrics == {"rubric/c": value, "rubric/c/unclear": 0.0}
    inside = {**criterion, "choices": ["bad", "unclear", "good"]}
    assert judged(rubric(reply(c="good"), criteria=[inside])).rewards["rubric"].value == 1.0


def test_the_full_trace_is_seen_by_default_and_the_answers_are_listed() -> None:
    seen: list[str] = []

    def answer(messages: vf.Messages) -> str:
        seen.append(messages[0].text)
        return reply(c="yes")

    from support.judging import talk, user

    trace = talk(user("2+2?"), vf.AssistantMessage(content="4"))
    config = vf.RubricJudgeConfig(
        criteria=[vf.Criterion(name="c", text="Good?")], answer_field="answer", client=vf.Scripted(answer)
    )
    judged(config, trace=trace)
    assert "## user\n2+2?\n\n## assistant\n4" in seen[0]
    assert '- c: Good? (answers: "no", "yes")' in seen[0]
    assert "Reference answer:\n```\n4\n```" in seen[0]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("I like it", 'no JSON object with "verdicts"'),
        (reply(clear="yes"), "it judged clear in place of clear, depth, outcome"),
        (reply(clear="yes", depth="fair", outcome="partly", extra="yes"), "in place of"),
        (
            reply(clear="yes", depth="so-so", outcome="partly"),
            "'so-so' is no answer on 'depth'; they are shallow",
        ),
        ('{"verdicts": [{"name": "clear"}]}', "the verdict on 'clear' has no answer"),
        ("", "no JSON object"),
    ],
)
def test_a_reply_that_is_no_set_of_verdicts_is_an_error(said: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "rubric.toml"
    file.write_text(TOML)
    trace = vf.Trace(answer="4")
    with pytest.raises(ScoringError, match="judge 'rubric' gave no verdict that can be read") as caught:
        judged(rubric(said, path=str(file)), trace=trace)
    assert problem in str(caught.value)
    assert trace.rewards["rubric"].value is None
    assert trace.dropped is None


def test_the_last_object_with_verdicts_counts() -> None:
    text = (
        f"<think>{reply(c='no')}</think>A draft {{}} {reply(c='no')}. Final:\n```json\n{reply(c='yes')}\n```"
    )
    assert judged(rubric(text, criteria=[{"name": "c", "text": "?"}])).rewards["rubric"].value == 1.0


def test_a_path_below_the_working_folder_or_beside_the_tasks_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_file(
        "import vfnb as vf\n\n\nclass Task(vf.Task):\n    pass\n", tmp_path / "task_beside_rubric.py"
    )
    (tmp_path / "beside.toml").write_text(TOML)
    config = vf.TaskConfig(judges=[rubric(GOOD, path="beside.toml")])
    task = module.Task(Data(), config)
    task.check()
    task.judges()[0].signals()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "beside.toml").write_text(TOML.replace("clear", "crisp"))
    monkeypatch.chdir(elsewhere)
    assert "rubric/crisp" in task.judges()[0].signals()
    with pytest.raises(
        ConfigError, match=r"judge 'rubric': path='gone.toml': there is no such file \(looked at"
    ):
        module.Task(Data(), vf.TaskConfig(judges=[rubric(GOOD, path="gone.toml")])).check()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[criteria]\n", "r.toml: this is not valid TOML"),
        ("", r"r.toml: criteria: required"),
        ("criteria = []", r"r.toml: criteria: "),
        ('[[criteria]]\nname = "a"\n', r"r.toml: criteria.0.text: required"),
        (
            '[[criteria]]\nname = "a"\ntext = "?"\nwieght = 1\n',
            r"criteria.0.wieght: unknown key.*mean weight",
        ),
        ('[[criteria]]\nname = "a"\ntext = "?"\nweight = -1\n', r"criteria.0.weight: "),
        ('[[criteria]]\nname = "a"\ntext = "?"\nweight = 0\n', r"no criterion has a weight above 0"),
        ('[[criteria]]\nname = "a"\ntext = "?"\nchoices = ["yes"]\n', r"at least two answers"),
        ('[[criteria]]\nname = "a"\ntext = "?"\nchoices = ["yes", "YES"]\n', r"two choices are the same"),
        ('[[criteria]]\nname = "a"\ntext = "?"\nchoices = { a = 1, b = nan }\n', r"not a finite number"),
        ('[[criteria]]\nname = "a"\ntext = "?"\n' * 2, r"two criteria are called 'a'"),
    ],
)
def test_a_wrong_rubric_file_is_explained_before_any_call(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text(text)
    client = scripted(GOOD)
    task = vf.Task(Data(), vf.TaskConfig(judges=[{"id": "rubric", "path": str(file), "client": client}]))
    with pytest.raises(ConfigError, match=message):
        task.check()
    assert client.calls == 0


def test_path_and_criteria_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="give either path"):
        vf.RubricJudgeConfig(path="a.toml", criteria=[vf.Criterion(name="a", text="?")])
