"""Images on the token road: one placeholder goes out, the expanded prompt comes back and is what the trace has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rollouts import body, post, served
from support.tokens import Told, think
from support.vllm_server import PAD, FakeVLLM

import vfnb as vf
from vfnb.clients.engines.embedded import MODEL

ADDED = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]


@pytest.fixture
def seeing(tmp_path: Path) -> Path:
    """The embedded model's tokenizer with the tokens of Qwen3-VL."""
    data = json.loads((MODEL / "tokenizer.json").read_text())
    first = PAD - ADDED.index("<|image_pad|>")
    for place, text in enumerate(ADDED):
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        data["added_tokens"].append({"id": first + place, "content": text, "special": True, **flags})
        data["model"]["vocab"][text] = first + place
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    for name in ("config.json", "tokenizer_config.json", "chat_template.jinja"):
        (tmp_path / name).write_bytes((MODEL / name).read_bytes())
    return tmp_path


def picture(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name}"}}


def see(*parts: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts],
    }


def test_an_images_tokens_are_recorded_and_gone_on_from(seeing: Path) -> None:
    with FakeVLLM(shape="0.32") as server:
        engine = vf.VLLM("tiny", url=server.url, tokenizer=seeing, renderer="qwen3-vl")
        with served(vf.TrainClient(engine)) as rollout:
            talk: list[Any] = [see("What is ", picture("AAAA"), " and ", picture("BBBB"), "?")]
            for more in (see("And ", picture("CCCC"), "?"), {"role": "user", "content": "Sure?"}, None):
                status, raw = post(rollout, body(talk, temperature=0, max_tokens=12))[0]
                assert status == 200, raw
                talk.append(
                    {"role": "assistant", "content": json.loads(raw)["choices"][0]["message"]["content"]}
                )
                if more is not None:
                    talk.append(more)
        engine.stop()
        sent = server.asked("/inference/v1/generate")[1:]
    assert [len(one["content_parts"]) for one in sent] == [2, 3, 3]
    assert [part["url"][-4:] for part in sent[1]["content_parts"]] == ["AAAA", "BBBB", "CCCC"]
    assert all(one["token_ids"].count(PAD) == len(one["content_parts"]) for one in sent)
    [branch] = rollout.trace.branches
    assert branch.token_ids.tolist().count(PAD) == 3 * server.image_tokens
    np.testing.assert_array_equal(branch.token_types, branch.token_ids == PAD)
    assert [end - begin for begin, end, _ in branch.media] == [server.image_tokens] * 3
    for call, one in zip(rollout.trace.calls, sent, strict=True):
        assert call.usage is not None
        assert call.usage.prompt_tokens == len(one["token_ids"]) + 4 * len(one["content_parts"])
    again = vf.Trace.model_validate_json(rollout.trace.model_dump_json())
    np.testing.assert_array_equal(again.branches[0].token_types, branch.token_types)
    [sample] = rollout.trace.samples()
    assert not sample.mask[sample.token_ids == PAD].any()


def test_a_prompt_that_is_not_the_one_sent_is_an_error(seeing: Path) -> None:
    def other(data: Any) -> None:
        data["prompt_token_ids"] = data["prompt_token_ids"][1:]

    with FakeVLLM() as server:
        engine = vf.VLLM("tiny", url=server.url, tokenizer=seeing, renderer="qwen3-vl")
        with served(vf.TrainClient(engine)) as rollout:
            rollout.run(engine.start())
            server.twist = other
            status, raw = post(rollout, body([see(picture("AAAA"))]))[0]
        engine.stop()
    assert status == 502 and b"not the one it was sent" in raw


def test_an_overflow_that_only_the_server_sees_is_the_dialects_own_error(seeing: Path) -> None:
    with FakeVLLM(limit=60) as server:
        server.image_tokens = 100
        engine = vf.VLLM("tiny", url=server.url, tokenizer=seeing, renderer="qwen3-vl")
        with served(vf.TrainClient(engine)) as rollout:
            status, raw = post(rollout, body([see(picture("AAAA"))]))[0]
        engine.stop()
    assert status == 400 and json.loads(raw)["error"]["code"] == "context_length_exceeded"
    assert rollout.session.last_overflow is not None


def test_a_server_without_the_route_and_an_engine_without_images_say_so(seeing: Path) -> None:
    with FakeVLLM(generate=403) as server:
        engine = vf.VLLM("tiny", url=server.url, tokenizer=seeing, renderer="qwen3-vl")
        with served(vf.TrainClient(engine)) as rollout:
            status, raw = post(rollout, body([see(picture("AAAA"))]))[0]
        engine.stop()
    assert status == 400 and b"--enable-scale-out" in raw
    told = Told([think("a")])
    told.tokenizer = engine.tokenizer  # type: ignore[method-assign]
    with served(vf.TrainClient(told, renderer="qwen3-vl")) as rollout:
        status, raw = post(rollout, body([see(picture("AAAA"))]))[0]
    assert status == 400 and b"cannot show images" in raw
