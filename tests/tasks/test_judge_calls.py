"""`vf.Judge`: prompts, verdicts, records, and what goes wrong with an endpoint."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from support.cells import module_file, run_cell
from support.judging import CORRECTNESS, scripted
from support.listings import ours
from support.upstream import Say, Upstream

import vfnb as vf
from vfnb import loops
from vfnb.errors import ConfigError, ScoringError, UpstreamConnection, UpstreamServerError, UpstreamTimeout


class Plain(vf.Judge[str]):
    prompt = "Is {response} right? {{yes}} or {{no}}"


def config(server: Upstream, **settings: Any) -> vf.JudgeConfig:
    return vf.JudgeConfig(base_url=server.url, model="judge", retries=0, **settings)


def ask(judge: vf.Judge[Any, Any], trace: vf.Trace | None = None, **fields: Any) -> vf.JudgeResponse[Any]:
    return asyncio.run(judge.evaluate(trace=trace, **fields))


# The published listing


@pytest.mark.parametrize("place", ["cell", "module", "postponed"])
def test_the_published_judge_scores_through_its_own_endpoint(place: str, tmp_path: Path) -> None:
    text = ours(CORRECTNESS)
    if place == "cell":
        space = run_cell(text)
    else:
        head = "from __future__ import annotations\n" if place == "postponed" else ""
        space = vars(module_file(head + text, tmp_path / f"correctness_{place}.py"))
    with Upstream(lambda body, number: "yes" if "Response: 4" in str(body) else "no") as server:
        settings = {"task": {"judge": {"base_url": server.url, "model": "judge"}}}
        taskset = space["JudgeTraceTaskset"](settings)
        for reply, value in (("4", 1.0), ("5", 0.0)):
            run = vf.evaluate(
                taskset, model=vf.Scripted([reply], cycle=True), dir=tmp_path / f"{place}-{reply}"
            ).wait(quiet=True)
            trace = run.traces[0]
            assert trace.rewards["correct"].value == value
            assert trace.last_reply == reply
            assert len(trace.nodes) == 2
            assert [call.judge for call in trace.judge_calls] == ["correctness"]
        asked = server.calls[0].body
    assert asked["model"] == "judge"
    assert "Question: What is 2+2?" in asked["messages"][0]["content"]


def test_a_judge_called_in_a_reward_runs_on_the_loop_of_hooks() -> None:
    space = run_cell(ours(CORRECTNESS))
    seen: list[bool] = []

    class Spy(space["CorrectnessJudge"]):  # type: ignore[misc]
        def parse(self, response: Any) -> bool:
            seen.append(loops.hooks().inside)
            return bool(super().parse(response))

    class Task(vf.Task):
        @vf.reward
        async def correct(self, trace: vf.Trace) -> float:
            result = await Spy(client=scripted("yes")).evaluate(
                trace=trace, question="q", answer="a", response="r"
            )
            return float(result.parsed)

    scores = asyncio.run(Task(vf.TaskData(prompt="x")).score(vf.Trace()))
    assert scores.reward == 1.0
    assert seen == [True]


def test_a_sync_reward_asks_with_evaluate_sync() -> None:
    class Task(vf.Task):
        @vf.reward
        def correct(self, trace: vf.Trace) -> float:
            return float(Plain(client=scripted("1")).evaluate_sync(trace=trace, response="r").parsed)

    trace = vf.Trace()
    assert asyncio.run(Task(vf.TaskData(prompt="x")).score(trace)).reward == 1.0
    assert trace.judge_calls[0].reply == "1"


# Prompts


def test_values_with_braces_are_just_text() -> None:
    seen: list[str] = []

    def reply(messages: vf.Messages) -> str:
        seen.append(messages[0].text)
        return "ok"

    ask(Plain(client=vf.Scripted(reply)), response="{answer} {} {0} {{x}}")
    assert seen == ["Is {answer} {} {0} {{x}} right? {yes} or {no}"]


def test_a_field_that_is_not_given_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"judge 'plain': its prompt takes \{response\}.*did you mean \{respons\}"
    ):
        ask(Plain(client=scripted("x")), respons="r")


def test_broken_braces_are_explained() -> None:
    judge = Plain(vf.JudgeConfig(prompt='{"a": {response}'), client=scripted("x"))
    with pytest.raises(ConfigError, match=r"no valid template: .*\{\{ and \}\}"):
        ask(judge, response="r")


def test_a_prompt_of_the_config_or_its_file_replaces_the_own_one(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("from a file: {response}")
    for settings, text in (
        ({"prompt": "given: {response}"}, "given: r"),
        (
            {"prompt_file": str(file)},
            "from a file: r",
        ),
    ):
        trace = vf.Trace()
        ask(Plain(settings, client=scripted("x")), trace, response="r")
        assert trace.judge_calls[0].prompt == text
    with pytest.raises(ConfigError, match="prompt or prompt_file, not both"):
        vf.JudgeConfig(prompt="a", prompt_file="b")
    with pytest.raises(ConfigError, match="there is no such file"):
        Plain({"prompt_file": "nowhere.txt"}, client=scripted("x")).check()


def test_build_messages_may_give_messages() -> None:
    class Two(vf.Judge[str]):
        def build_messages(self, **fields: Any) -> vf.Messages:
            return [vf.SystemMessage(content="strict"), vf.UserMessage(content=fields["response"])]

    with Upstream(["fine"]) as server:
        assert ask(Two(config(server)), response="r").parsed == "fine"
        assert [item["role"] for item in server.calls[0].body["messages"]] == ["system", "user"]


def test_a_schema_asks_for_json_and_parses_it() -> None:
    class Grade(BaseModel):
        points: int

    class Graded(vf.Judge[Grade]):
        prompt = "{response}"
        schema = Grade

    with Upstream(['```json\n{"points": 3}\n```', "three"]) as server:
        judge, trace = Graded(config(server)), vf.Trace()
        assert ask(judge, trace, response="r").parsed.points == 3
        asked = server.calls[0].body["response_format"]
        with pytest.raises(ScoringError, match="judge 'graded' gave no verdict"):
            ask(judge, response="r")
    assert asked["json_schema"]["schema"]["properties"]["points"]["type"] == "integer"
    assert trace.judge_calls[0].verdict == {"points": 3}


# The record


def test_a_call_is_recorded_with_usage_latency_and_verdict_and_survives_a_dump() -> None:
    trace = vf.Trace()
    with Upstream([Say("fine", delay=0.05)]) as server:
        result = ask(Plain(config(server, name="strict", price=(1.0, 2.0))), trace, response="r")
        endpoint = server.url
    (call,) = trace.judge_calls
    assert (call.judge, call.model, call.reply, call.verdict) == ("strict", "judge", "fine", "fine")
    assert call.endpoint == endpoint
    assert call.seconds >= 0.05
    assert call.usage is not None
    assert call.usage.cost == pytest.approx((7 + 2 * 3) / 1e6)
    assert result.usage == call.usage == trace.judge_usage
    assert trace.usage.total_tokens == 0
    assert trace.calls == []
    again = vf.Trace.model_validate_json(trace.model_dump_json())
    assert again.judge_calls == trace.judge_calls


def test_sampling_headers_and_key_are_the_judges_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-judge")
    monkeypatch.setenv("TEAM", "blue")
    with Upstream(["x"]) as server:
        judge = Plain(
            config(
                server,
                api_key_var="JUDGE_KEY",
                headers={"X-Team": "env:TEAM"},
                sampling={"temperature": 0.25, "max_tokens": 9, "extra_body": {"top_k": 5}},
            )
        )
        ask(judge, response="r")
        (call,) = server.calls
    body = call.body
    assert (body["temperature"], body["max_tokens"], body["top_k"]) == (0.25, 9, 5)
    assert call.headers["Authorization"] == "Bearer sk-judge"
    assert call.headers["X-Team"] == "blue"
    assert "sk-judge" not in repr(judge.config) + str(judge.identity())


def test_secrets_do_not_belong_into_a_config() -> None:
    with pytest.raises(ConfigError, match=r"looks like a secret.*env:NAME"):
        vf.JudgeConfig(headers={"X-Auth": "Bearer abc"})
    with pytest.raises(ConfigError, match="into the environment"):
        vf.JudgeConfig(base_url="https://me:pw@example.org/v1")


def test_a_missing_key_is_found_before_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    judge = Plain(vf.JudgeConfig(base_url="https://example.org", api_key_var="NO_SUCH_KEY"))
    with pytest.raises(ConfigError, match=r"judge 'plain'.*NO_SUCH_KEY is not set"):
        judge.check()


# Failures


def test_an_unreadable_verdict_names_the_judge_and_what_it_said() -> None:
    space = run_cell(ours(CORRECTNESS))
    trace = vf.Trace()
    judge = space["CorrectnessJudge"](client=scripted("perhaps " * 200))
    with pytest.raises(ScoringError) as caught:
        ask(judge, trace, question="q", answer="a", response="r")
    text = str(caught.value)
    assert "judge 'correctness' gave no verdict that can be read: Judge returned no yes/no verdict" in text
    assert "perhaps" in text
    assert "characters ..." in text
    assert len(text) < 700
    (call,) = trace.judge_calls
    assert call.verdict is None
    assert call.error is not None
    assert call.usage is not None


def test_an_endpoint_that_is_down(unused_port: int) -> None:
    trace = vf.Trace()
    judge = Plain(vf.JudgeConfig(base_url=f"http://127.0.0.1:{unused_port}", model="judge", retries=0))
    with pytest.raises(
        ScoringError, match="judge 'plain' got no answer from judge: UpstreamConnection"
    ) as caught:
        ask(judge, trace, response="r")
    assert isinstance(caught.value.__cause__, UpstreamConnection)
    assert trace.judge_calls[0].error is not None


def test_an_endpoint_that_is_slow() -> None:
    with Upstream([Say("late", delay=30)]) as server:
        start = time.monotonic()
        with pytest.raises(
            ScoringError, match=r"got no answer from judge within 0.2 s: UpstreamTimeout"
        ) as caught:
            ask(Plain(config(server, timeout=0.2)), response="r")
        assert time.monotonic() - start < 10
    assert isinstance(caught.value.__cause__, UpstreamTimeout)


@pytest.mark.parametrize("raw", [b"<html>busy</html>", b'{"choices": []}', b"{"])
def test_an_endpoint_that_babbles(raw: bytes) -> None:
    with Upstream([Say(raw=raw)]) as server, pytest.raises(ScoringError, match="UpstreamMalformed"):
        ask(Plain(config(server)), response="r")


def test_retries_with_a_pause_and_their_number_in_the_record() -> None:
    with Upstream([Say(status=503), Say(status=500), Say("fine")]) as server:
        trace = vf.Trace()
        judge = Plain(vf.JudgeConfig(base_url=server.url, model="judge", retries=2))
        assert ask(judge, trace, response="r").text == "fine"
        first, second, third = server.calls
    assert trace.judge_calls[0].failed_tries == 2
    assert second.start - first.end > 0.3
    assert third.start - second.end > 0.6


def test_errors_that_may_pass_do_not_run_the_rollout_again() -> None:
    with Upstream([Say(status=500)]) as server, pytest.raises(ScoringError) as caught:
        ask(Plain(config(server)), response="r")
    assert isinstance(caught.value.__cause__, UpstreamServerError)
    assert not caught.value.retryable


def test_one_endpoint_is_not_asked_more_at_once_than_allowed() -> None:
    with Upstream([Say("x", delay=0.05)]) as server:

        async def many(name: str) -> None:
            judge = Plain(config(server, max_concurrency=3, name=name))
            await asyncio.gather(*(judge.evaluate(response=str(i)) for i in range(8)))

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda name: asyncio.run(many(name)), ["one", "two"]))
        assert len(server.calls) == 16
        assert server.most == 3


def test_waiting_for_a_turn_does_not_count_as_slow() -> None:
    with Upstream([Say("x", delay=0.2)]) as server:

        async def many() -> None:
            judge = Plain(config(server, max_concurrency=1, timeout=1.0))
            await asyncio.gather(*(judge.evaluate(response=str(i)) for i in range(6)))

        asyncio.run(many())
        assert len(server.calls) == 6
