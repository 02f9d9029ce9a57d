"""The judge `decision`: probability-weighted levels from a decision endpoint or from logprobs."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from support.judging import judged
from support.upstream import Say, Upstream

import vfnb as vf
from vfnb.errors import ConfigError, ScoringError

FIVE = ["wrong", "poor", "fair", "good", "right"]


def answer(**grade: Any) -> dict[str, Any]:
    return {
        "model": "clef-1",
        "answers": {"grade": {"type": "score", **grade}},
        "usage": {"input_tokens": 50, "output_tokens": 0, "cost": 0.001},
    }


def say(body: Any) -> Say:
    return Say(raw=json.dumps(body).encode())


def spread(*shares: float) -> dict[str, float]:
    return {str(level): share for level, share in enumerate(shares)}


def decision(server: Upstream, **settings: Any) -> vf.DecisionJudgeConfig:
    return vf.DecisionJudgeConfig(**{"base_url": server.url, "retries": 0, **settings})


def test_the_published_table() -> None:
    (config,) = vf.TaskConfig(
        judges=[
            {
                "id": "decision",
                "name": "correct",
                "answer_field": "answer",
                "levels": ["Incorrect", "Correct"],
            }
        ]
    ).judges
    assert isinstance(config, vf.DecisionJudgeConfig)
    assert (config.model, config.levels) == ("cloudflare/clef", ["Incorrect", "Correct"])


def test_two_levels_give_the_probability_of_the_better_one() -> None:
    with Upstream([say(answer(score=0.7, probabilities=spread(0.3, 0.7)))]) as server:
        trace = judged(decision(server, name="correct", answer_field="answer"))
        (call,) = server.calls
    assert trace.rewards["correct"].value == pytest.approx(0.7)
    assert call.path == "/v1/systemone"
    assert call.body["model"] == "cloudflare/clef"
    assert call.body["state"] == {"question": "What is 2+2?", "response": "4", "answer": "4"}
    question = call.body["questions"]["grade"]
    assert (question["type"], question["criteria"]) == ("score", ["Incorrect", "Correct"])
    (record,) = trace.judge_calls
    assert record.verdict["probabilities"] == {"Incorrect": 0.3, "Correct": 0.7}
    assert record.usage is not None
    assert (record.usage.prompt_tokens, record.usage.cost, record.served_model) == (50, 0.001, "clef-1")


def test_levels_are_weighted_by_probability_and_normalised() -> None:
    with Upstream([say(answer(score=0, probabilities=spread(0.1, 0.0, 0.2, 0.3, 0.4)))]) as server:
        trace = judged(decision(server, levels=FIVE))
    assert trace.rewards["decision"].value == pytest.approx((0.2 * 2 + 0.3 * 3 + 0.4 * 4) / 4)


@pytest.mark.parametrize(
    "body",
    [
        answer(score=3.0),
        {"success": True, "result": answer(score=3.0)},
        answer(probabilities=[0.0, 0.0, 0.0, 1.0, 0.0]),
        {"answers": {"grade": {"score": 3}}, "usage": {"inputTokens": 4, "outputTokens": 0}},
    ],
)
def test_forms_of_the_answer(body: Any) -> None:
    with Upstream([say(body)]) as server:
        assert judged(decision(server, levels=FIVE)).rewards["decision"].value == 0.75


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (answer(score=5.0), "its score 5.0 is not a number from 0 to 1"),
        (answer(score="1"), "its score '1' is not a number"),
        (answer(probabilities=spread(0.3, 0.3)), "its probabilities add up to 0.6"),
        (answer(probabilities=spread(0.3, 0.3, 0.4), score=None), "its score None is not a number"),
        (answer(probabilities=[1.5, -0.5]), "are not 2 numbers from 0 to 1"),
        ({"answers": {"other": {}}}, "no answer to the question 'grade'"),
    ],
)
def test_an_answer_that_contradicts_itself_is_an_error(body: Any, problem: str) -> None:
    trace = vf.Trace(answer="4")
    with (
        Upstream([say(body)]) as server,
        pytest.raises(ScoringError, match="judge 'decision' gave no") as caught,
    ):
        judged(decision(server), trace=trace)
    assert problem in str(caught.value)
    assert trace.rewards["decision"].value is None


@pytest.mark.parametrize("body", [{"success": False, "errors": ["no credit"]}, {"choices": []}, []])
def test_no_answers_at_all(body: Any) -> None:
    with Upstream([say(body)]) as server, pytest.raises(ScoringError, match="UpstreamMalformed"):
        judged(decision(server))


@pytest.mark.parametrize(
    ("given", "posted"),
    [
        ("", "/v1/systemone"),
        ("/v1", "/v1/systemone"),
        ("/api/v1/evaluations", "/api/v1/evaluations"),
        ("/run/@cf/cloudflare/clef", "/run/@cf/cloudflare/clef"),
    ],
)
def test_where_decisions_are_posted(given: str, posted: str) -> None:
    with Upstream([say(answer(score=1.0))]) as server:
        judged(decision(server, base_url=server.url + given))
        assert server.calls[0].path == posted


@pytest.mark.parametrize("levels", [["one"], [str(i) for i in range(11)], ["a", "A "]])
def test_two_to_ten_distinct_levels(levels: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"levels|same"):
        vf.DecisionJudgeConfig(levels=levels)


def test_a_scripted_decision_model() -> None:
    client = vf.Scripted([json.dumps({"grade": {"score": 1.0}})])
    assert judged(vf.DecisionJudgeConfig(client=client)).rewards["decision"].value == 1.0


# Logprobs of a chat model


def logprobs(**shares: float) -> Say:
    top = [{"token": token, "logprob": math.log(share), "bytes": None} for token, share in shares.items()]
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "A"},
        "finish_reason": "length",
        "logprobs": {"content": [{"token": "A", "logprob": top[0]["logprob"], "top_logprobs": top}]},
    }
    return say({"id": "1", "object": "chat.completion", "created": 1, "model": "chat", "choices": [choice]})


def chat(server: Upstream, **settings: Any) -> vf.DecisionJudgeConfig:
    return vf.DecisionJudgeConfig(via="logprobs", model="chat", base_url=server.url, retries=0, **settings)


def test_levels_from_the_first_token_of_a_chat_model() -> None:
    with Upstream([logprobs(**{"C": 0.4, " C": 0.2, "a": 0.2, "The": 0.1})]) as server:
        trace = judged(chat(server, levels=["bad", "fair", "good"], answer_field="answer"))
        (call,) = server.calls
    assert trace.rewards["decision"].value == pytest.approx(0.75)
    assert call.path == "/v1/chat/completions"
    assert (call.body["logprobs"], call.body["top_logprobs"], call.body["max_tokens"]) == (True, 20, 1)
    text = call.body["messages"][0]["content"]
    assert "A: bad\nB: fair\nC: good" in text
    assert '"response": "4"' in text


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Say("A"), "no top_logprobs; use an endpoint that gives them"),
        (logprobs(A=0.1, The=0.9), "only 10% of the probability lies on the letters"),
    ],
)
def test_a_chat_model_that_gives_no_decision(said: Say, problem: str) -> None:
    with Upstream([said]) as server, pytest.raises(ScoringError, match=problem):
        judged(chat(server))


def test_logprobs_need_an_endpoint() -> None:
    with pytest.raises(ConfigError, match="needs the model and base_url"):
        vf.DecisionJudgeConfig(via="logprobs")
