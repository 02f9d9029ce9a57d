"""The embedded engine: exact log-probabilities, reproducible samples, one thread for many callers."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vfnb as vf
from vfnb.clients.engines import TokenSampling
from vfnb.clients.engines.qwen3 import Qwen3
from vfnb.clients.engines.weights import read_folder, read_safetensors, write_safetensors
from vfnb.errors import ConfigError, ContextLengthError, UpstreamServerError

QUESTION = "<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def engine() -> Iterator[vf.Embedded]:
    made = vf.Embedded()
    yield made
    asyncio.run(made.close())


def sync(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def ids(engine: vf.Embedded, text: str = QUESTION) -> list[int]:
    found: list[int] = engine.tokenizer().encode_template(text)
    return found


def sampling(engine: vf.Embedded, **settings: Any) -> TokenSampling:
    return TokenSampling(**({"max_tokens": 40, "stop_token_ids": engine.stop_ids()} | settings))


@sync
async def test_log_probabilities_are_those_of_a_whole_pass(engine: vf.Embedded) -> None:
    prompt = ids(engine)
    made = await engine.generate(prompt, sampling(engine))
    assert made.finish_reason == "stop"
    scores = await engine.score([*prompt, *made.token_ids])
    assert scores.dtype == np.float32 and scores[0] == 0.0
    np.testing.assert_allclose(scores[len(prompt) :], made.logprobs, atol=1e-4)


@sync
async def test_sequences_of_a_batch_do_not_touch_each_other(engine: vf.Embedded) -> None:
    prompts = [ids(engine, QUESTION.replace("3 + 4", f"{n} + {n}")) for n in range(20)]
    settings = sampling(engine, temperature=0)
    together = await asyncio.gather(*(engine.generate(prompt, settings) for prompt in prompts))
    for prompt, made in zip(prompts, together, strict=True):
        alone = await engine.generate(prompt, settings)
        assert alone.token_ids.tolist() == made.token_ids.tolist()
        np.testing.assert_allclose(alone.logprobs, made.logprobs, atol=1e-4)


@sync
async def test_a_seed_gives_the_same_completion_whatever_runs_beside_it(engine: vf.Embedded) -> None:
    prompt = ids(engine)
    settings = sampling(engine, seed=7)
    alone = await engine.generate(prompt, settings)
    beside = await asyncio.gather(
        engine.generate(prompt, settings), *(engine.generate(prompt, sampling(engine)) for _ in range(9))
    )
    assert beside[0].token_ids.tolist() == alone.token_ids.tolist()


@sync
async def test_two_engines_give_the_same_completions_in_order() -> None:
    found = []
    for _ in range(2):
        engine = vf.Embedded(seed=3)
        made = [await engine.generate(ids(engine), sampling(engine)) for _ in range(6)]
        found.append([entry.token_ids.tolist() for entry in made])
        await engine.close()
    assert found[0] == found[1]
    assert len({tuple(entry) for entry in found[0]}) > 1


@sync
async def test_the_share_of_each_first_token_is_its_probability(engine: vf.Embedded) -> None:
    prompt = ids(engine)
    settings = sampling(engine, max_tokens=1, temperature=2.0)
    made = await asyncio.gather(*(engine.generate(prompt, settings) for _ in range(600)))
    tokens = np.array([entry.token_ids[0] for entry in made])
    common = np.bincount(tokens).argmax()
    told = float(np.exp(next(entry.logprobs[0] for entry in made if entry.token_ids[0] == common)))
    share = float((tokens == common).mean())
    assert abs(share - told) < 4 * np.sqrt(told * (1 - told) / 600) + 1e-3


@sync
async def test_top_k_and_top_p_leave_only_likely_tokens(engine: vf.Embedded) -> None:
    prompt = ids(engine)
    greedy = (await engine.generate(prompt, sampling(engine, max_tokens=1, temperature=0))).token_ids[0]
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        made = await engine.generate(prompt, sampling(engine, max_tokens=1, temperature=3.0, **narrow))
        assert (made.token_ids[0], made.logprobs[0]) == (greedy, 0.0)


@sync
async def test_stop_texts_and_lengths_end_a_completion(engine: vf.Embedded) -> None:
    prompt = ids(engine)
    short = await engine.generate(prompt, sampling(engine, max_tokens=3))
    assert (len(short.token_ids), short.finish_reason) == (3, "length")
    stopped = await engine.generate(prompt, sampling(engine, temperature=0, stop=("+",)))
    text = engine.tokenizer().decode(stopped.token_ids.tolist())
    assert stopped.finish_reason == "stop" and text.endswith("+") and text.count("+") == 1


@sync
async def test_a_cancelled_call_frees_its_place() -> None:
    before = set(threading.enumerate())
    engine = vf.Embedded(max_batch=1)
    endless = TokenSampling(max_tokens=3000)
    call = asyncio.create_task(engine.generate(ids(engine), endless))
    await asyncio.sleep(0.3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(5):
        await engine.generate(ids(engine), sampling(engine, max_tokens=2))
    await engine.close()
    assert not [t for t in set(threading.enumerate()) - before if t.name == "vfnb-embedded"]


@sync
async def test_a_prompt_without_room_is_an_overflow(engine: vf.Embedded) -> None:
    limit = engine.network.limit = 60  # a whole context would take seconds
    with pytest.raises(ContextLengthError, match=f"maximum context length is {limit} tokens"):
        await engine.generate([5] * limit, sampling(engine))
    made = await engine.generate([5] * (limit - 2), TokenSampling())
    assert (len(made.token_ids), made.finish_reason) == (2, "length")


@sync
async def test_ids_of_another_vocabulary_are_refused(engine: vf.Embedded) -> None:
    with pytest.raises(ConfigError, match="outside the vocabulary"):
        await engine.generate([1, 5000], sampling(engine))


@sync
async def test_new_weights_are_another_model(engine: vf.Embedded, tmp_path: Path) -> None:
    prompt, settings = ids(engine), sampling(engine, temperature=0)
    before, identity = await engine.generate(prompt, settings), engine.identity()
    weights = {name: array * 1.1 for name, array in engine.network.weights.items()}
    engine.load(weights)
    assert engine.identity() != identity
    after = await engine.generate(prompt, settings)
    assert not np.allclose(after.logprobs[:1], before.logprobs[:1], atol=1e-6)
    with pytest.raises(ConfigError, match=r"model\.norm\.weight has shape \(3,\)"):
        engine.load(weights | {"model.norm.weight": np.ones(3, np.float32)})
    engine.load(engine.path)
    assert engine.identity() == identity
    assert (await engine.generate(prompt, settings)).logprobs.tolist() == before.logprobs.tolist()


@sync
async def test_an_engine_that_breaks_tells_all_its_callers(engine: vf.Embedded) -> None:
    endless = TokenSampling(max_tokens=2000)
    calls = [asyncio.create_task(engine.generate(ids(engine), endless)) for _ in range(3)]
    await asyncio.sleep(0.2)
    engine.network.limit, engine.network._cos = 10, engine.network._cos[:10]
    for call in calls:
        with pytest.raises(UpstreamServerError, match="the embedded engine failed: IndexError"):
            await call


@sync
async def test_a_request_that_cannot_be_sampled_is_its_own_trouble(engine: vf.Embedded) -> None:
    odd = sampling(engine, temperature="0.7")
    others = [asyncio.create_task(engine.generate(ids(engine), sampling(engine))) for _ in range(3)]
    with pytest.raises(UpstreamServerError, match="the embedded engine failed: "):
        await engine.generate(ids(engine), odd)
    for other in others:
        assert (await other).finish_reason == "stop"


@sync
async def test_an_engine_that_cannot_have_its_memory_says_so_and_can_be_asked_again(
    engine: vf.Embedded,
) -> None:
    engine.max_batch = 10**9
    with pytest.raises(UpstreamServerError, match="MemoryError"):
        await engine.generate(ids(engine), sampling(engine))
    engine.max_batch = 4
    assert (await engine.generate(ids(engine), sampling(engine))).finish_reason == "stop"


@sync
async def test_closing_does_not_wait_for_others(engine: vf.Embedded) -> None:
    long = asyncio.create_task(engine.generate(ids(engine), TokenSampling(max_tokens=3000)))
    await asyncio.sleep(0.1)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0.05)
    await engine.generate(ids(engine), sampling(engine, max_tokens=2))
    async with asyncio.timeout(3):
        await closing
    long.cancel()


def test_weights_survive_a_file(tmp_path: Path) -> None:
    _, weights = read_folder(vf.Embedded().path)
    write_safetensors(tmp_path / "model.safetensors", weights)
    again = read_safetensors(tmp_path / "model.safetensors")
    assert all(np.array_equal(again[name], array) for name, array in weights.items())


def test_folders_that_cannot_be_run_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json"):
        vf.Embedded(tmp_path).check()
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ConfigError, match="runs Qwen3 only"):
        _ = vf.Embedded(tmp_path).network
    (tmp_path / "config.json").write_text('{"model_type": "qwen3"}')
    with pytest.raises(ConfigError, match="safetensors"):
        _ = vf.Embedded(tmp_path).network


def test_steps_agree_with_a_prefill() -> None:
    network = Qwen3(*read_folder(vf.Embedded().path))
    tokens = np.random.default_rng(0).integers(0, network.vocab, 600).astype(np.int32)
    whole = network.prefill(tokens, every=True)
    cache = network.cache(3)
    network.prefill(tokens[:100], cache, 0)
    network.prefill(tokens[:550], cache, 1)
    for step in range(20):
        pair = np.array([tokens[100 + step], tokens[550 + step]])
        logits = network.step(pair, np.array([100 + step, 550 + step]), cache)
        np.testing.assert_allclose(logits, whole[[100 + step, 550 + step]], atol=2e-3)
