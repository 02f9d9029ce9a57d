"""A bad provider behind a whole run: every rollout ends completed or with a typed error, and nothing hangs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.addition import taskset
from support.faults import FAULTS, FaultProxy
from support.upstream import Say, Upstream

import vfnb as vf

TYPED = {
    "UpstreamConnection",
    "UpstreamCut",
    "UpstreamMalformed",
    "UpstreamRateLimited",
    "UpstreamServerError",
    "UpstreamTimeout",
}


@vf.harness
async def streaming(session: vf.HarnessSession, task: vf.Task) -> str:
    """Three turns through the official client, which has retries of its own."""
    client = session.openai()
    messages: list[dict[str, str]] = [{"role": "user", "content": task.data.prompt}]
    for _ in range(3):
        stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
        text = ""
        async for chunk in stream:
            if chunk.choices:
                text += chunk.choices[0].delta.content or ""
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
    return text


@pytest.mark.parametrize("harness", ["null", streaming])
def test_every_rollout_behind_a_fault_proxy_has_an_end(tmp_path: Path, harness: object) -> None:
    dice = random.Random(7)
    with (
        Upstream(lambda body, number: Say(text="2")) as upstream,
        FaultProxy(upstream.url, lambda _: dice.choice([*FAULTS, None, None])) as proxy,
    ):
        model = vf.Relay("m", base_url=proxy.url, max_retries=1, retry_wait=0.01)
        run = vf.evaluate(
            taskset(40),
            model=model,
            harness=harness,
            timeouts={"agent": 20},
            concurrency=16,
            dir=tmp_path / "run",
        ).wait(50, quiet=True)
    assert run.complete
    assert len(run.traces) == 40
    for trace in run.traces:
        assert trace.end_state in ("completed", "error")
        if trace.end_state == "error":
            assert trace.errors[-1].type in TYPED
            assert trace.reward is None
        failed = [call for call in trace.calls if call.error is not None]
        assert all(call.error.type in TYPED for call in failed)
    assert set(proxy.seen) >= set(FAULTS)
    assert run.summary.scored + run.summary.failed == 40
    assert run.summary.scored > 0


def test_no_secret_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-very-secret-0123456789"
    monkeypatch.setenv("MY_KEY", secret)
    monkeypatch.setenv("OPENAI_API_KEY", secret + "-2")

    @vf.harness
    async def nosy(session: vf.HarnessSession, task: vf.Task) -> str:
        session.log("endpoint", session.base_url)
        return (await session.complete(task.data.prompt)).text

    with Upstream(lambda body, number: Say(text="2")) as upstream:
        model = vf.Relay("m", base_url=upstream.url, api_key_var="MY_KEY", headers={"X-Org": "env:MY_KEY"})
        run = vf.evaluate(taskset(2), model=model, harness=nosy, dir=tmp_path / "run").wait(quiet=True)
        assert upstream.calls[0].headers["Authorization"] == f"Bearer {secret}"
    assert run.complete
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    shown = repr(model) + repr(run) + str(run) + repr(run.traces[0]) + run.traces[0].model_dump_json()
    assert secret not in shown
    assert (tmp_path / "run" / "logs" / f"{run.traces[0].id}.log").read_text().count("endpoint") == 1


def test_a_program_sees_no_credentials_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sk-secret")
    program = vf.Program(["python3", "-c", "import os; print(sorted(os.environ)); raise SystemExit(1)"])
    run = vf.evaluate(taskset(1), model=vf.Scripted(["2"]), harness=program, dir=tmp_path / "run").wait(
        quiet=True
    )
    message = run.traces[0].errors[-1].message
    assert "OPENAI_BASE_URL" in message
    assert "ANTHROPIC_API_KEY" not in message and "AWS_SECRET_ACCESS_KEY" not in message
