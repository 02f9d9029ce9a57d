"""Judges in runs: failures are counted apart, scores are made anew without the agent, files configure them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.judging import run_judged, scripted
from support.upstream import Say, Upstream

import vfnb as vf
from vfnb.errors import ConfigError


def reference(server: Upstream | str, **settings: Any) -> vf.ReferenceJudgeConfig:
    url = server if isinstance(server, str) else server.url
    return vf.ReferenceJudgeConfig(
        **{"name": "correct", "base_url": url, "model": "judge", "retries": 0} | settings
    )


def test_judged_rewards_are_in_the_frames_and_on_disk(tmp_path: Path) -> None:
    with Upstream(["yes"]) as server:
        run = run_judged(tmp_path, [reference(server)])
    assert list(run.rewards["correct"]) == [1.0, 1.0, 1.0]
    assert run.summary.reward.mean == 1.0
    table = run.frame("judges", where="verdict = '1.0' AND task IS NOT NULL")
    assert list(table["judge"]) == ["correct"] * 3
    assert list(table["tokens_in"]) == [7, 7, 7]
    assert (table["time_s"] > 0).all()
    assert len(run.frame("judges", columns=["judge"], where="state = 'error'")) == 0
    again = vf.load(tmp_path)
    (call,) = again.traces[0].judge_calls
    assert (call.judge, call.verdict, call.model) == ("correct", 1.0, "judge")
    assert again.traces[0].usage.total_tokens > 0
    assert again.traces[0].judge_usage.total_tokens == 10


FAULTS = {
    "down": (None, {}, "UpstreamConnection"),
    "slow": (Say("yes", delay=20), {"timeout": 0.2}, "UpstreamTimeout"),
    "babbling": (Say("as you like"), {}, "neither a clear yes nor a clear no"),
    "broken": (Say(raw=b"<html>"), {}, "UpstreamMalformed"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_judge_that_fails_gives_no_reward_and_is_counted(
    fault: str, tmp_path: Path, unused_port: int
) -> None:
    said, settings, why = FAULTS[fault]
    with Upstream([said] if said is not None else None) as server:
        url = f"http://127.0.0.1:{unused_port}" if said is None else server.url
        run = run_judged(tmp_path, [reference(url, **settings)])
    summary = run.summary
    assert (summary.failed, summary.scored, summary.reward.mean) == (3, 0, None)
    (error,) = summary.errors
    assert (error.type, error.boundary, error.count) == ("ScoringError", "scoring", 3)
    assert "judge 'correct'" in error.message
    assert why in error.message
    for trace in run.traces:
        assert trace.rewards["correct"].value is None
        assert trace.reward is None
        assert trace.last_reply == "4"
        assert trace.judge_calls[0].error is not None


def test_after_a_judges_outage_only_the_judge_runs_again(tmp_path: Path) -> None:
    model = scripted("4")
    with Upstream([Say(status=500), Say(status=500), "yes"]) as server:
        first = run_judged(tmp_path, [reference(server)], tasks=2, model=model)
        assert first.summary.failed == 2
        second = run_judged(tmp_path, [reference(server)], tasks=2, model=model)
    assert model.calls == 2
    assert second.summary.failed == 0
    assert list(second.rewards["reward"]) == [1.0, 1.0]
    assert [call.verdict for call in vf.load(tmp_path).traces[0].judge_calls] == [1.0]
    assert vf.load(tmp_path).traces[0].ok


def test_an_empty_reply_is_unscored_and_no_zero(tmp_path: Path) -> None:
    replies = iter(["", "4", "4"])
    model = vf.Scripted(lambda messages: next(replies))
    with Upstream(["yes"]) as server:
        run = run_judged(tmp_path, [reference(server)], model=model)
        assert len(server.calls) == 2
    summary = run.summary
    assert (summary.unscored, summary.scored, summary.failed) == (1, 2, 0)
    assert summary.reward.mean == 1.0
    flagged = [trace for trace in run.traces if trace.reward is None]
    assert [trace.info["unscored"] for trace in flagged] == [{"correct": "the last reply is empty"}]


def test_a_dropped_rollout_counts_in_no_mean(tmp_path: Path) -> None:
    def reply(body: Any, number: int) -> str:
        outcome = "task_defect" if number == 0 else "solved"
        return json.dumps({"verdicts": [{"name": "outcome", "reason": "", "answer": outcome}]})

    criteria = [
        {"name": "outcome", "text": "?", "choices": {"solved": 1, "failed": 0}, "drop": ["task_defect"]}
    ]
    with Upstream(reply) as server:
        config = vf.RubricJudgeConfig(criteria=criteria, base_url=server.url, model="judge")
        run = run_judged(tmp_path, [config], concurrency=1)
    assert (run.summary.dropped, run.summary.scored, run.summary.reward.mean) == (1, 2, 1.0)
    assert [trace.dropped for trace in run.traces] == ["rubric: outcome=task_defect", None, None]
    assert run.traces[0].end_state == "dropped"


def test_another_judge_scores_stored_rollouts_without_the_agent(tmp_path: Path) -> None:
    model = scripted("4")
    with Upstream(["yes"]) as kind, Upstream(["no"]) as strict:
        means = [run_judged(tmp_path, [reference(kind)], model=model).summary.reward.mean]
        same = run_judged(tmp_path, [reference(kind)], model=model)
        means.append(same.summary.reward.mean)
        assert same.summary.reused == 3
        assert len(kind.calls) == 3
        judges = (reference(strict), reference(kind, prompt="{response}?"))
        means += [run_judged(tmp_path, [judge], model=model).summary.reward.mean for judge in judges]
    assert model.calls == 3
    assert means == [1.0, 1.0, 0.0, 1.0]
    assert len(strict.calls) == 3


def test_settings_that_change_no_verdict_keep_the_scores(tmp_path: Path) -> None:
    with Upstream(["yes"]) as server:
        run_judged(tmp_path, [reference(server)])
        run_judged(tmp_path, [reference(server, timeout=5, max_concurrency=2)])
        assert len(server.calls) == 3


def test_rubric_text_enters_the_score_hash(tmp_path: Path) -> None:
    file = tmp_path / "rubric.toml"
    verdict = '{"verdicts": [{"name": "c", "reason": "", "answer": "yes"}]}'
    with Upstream([verdict]) as server:
        for text in ("Good?", "Good?", "Better?"):
            file.write_text(f'[[criteria]]\nname = "c"\ntext = "{text}"\n')
            config = vf.RubricJudgeConfig(path=str(file), base_url=server.url, model="judge")
            run_judged(tmp_path / "run", [config])
        assert len(server.calls) == 6


def test_no_key_and_no_field_are_found_before_the_agent_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = scripted("4")
    with pytest.raises(ConfigError, match=r"judge 'correct'.*OPENAI_API_KEY is not set"):
        run_judged(tmp_path, [vf.ReferenceJudgeConfig(name="correct")], model=model)
    with pytest.raises(ConfigError, match="judge 'correct': answer_field='solution'"):
        run_judged(tmp_path, [reference("http://127.0.0.1:1", answer_field="solution")], model=model)
    assert model.calls == 0


REFERENCE = """
[[env.taskset.task.judges]]
id = "reference"
name = "correct"
answer_field = "answer"
view = "last_reply"
"""
DECISION = """
[[env.taskset.task.judges]]
id = "decision"
name = "correct"
answer_field = "answer"
levels = ["Incorrect", "Correct"]
"""
RUBRIC = """
[[env.taskset.task.judges]]
id = "rubric"
path = "rubric.toml"
"""


@pytest.mark.parametrize("text", [REFERENCE, DECISION, RUBRIC], ids=["reference", "decision", "rubric"])
def test_the_published_tables_load_and_are_saved_with_the_run(text: str, tmp_path: Path) -> None:
    from vfnb.runs.tree import EvalConfig

    file = tmp_path / "run.toml"
    file.write_text('[env.taskset]\nid = "addition"\n' + text)
    config = EvalConfig.load(file, model="m")
    (judge,) = config.taskset.task.judges
    table = tomllib.loads(text)["env"]["taskset"]["task"]["judges"][0]
    assert {key: getattr(judge, key) for key in table} == table
    again = EvalConfig.load(model="m", taskset=config.taskset.model_dump(mode="json"))
    assert again.taskset.task.judges == [judge]


def test_a_wrong_table_names_its_key(tmp_path: Path) -> None:
    from vfnb.runs.tree import EvalConfig

    file = tmp_path / "run.toml"
    file.write_text('[env.taskset]\nid = "addition"\n' + REFERENCE.replace("answer_field", "anser_field"))
    with pytest.raises(
        ConfigError, match=r"env\.taskset\.task\.judges\.0\.anser_field.*did you mean answer_field"
    ):
        EvalConfig.load(file, model="m")
