"""Stored tokens scored again: what is compared, what is not, and a record that was tampered with."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support.html_rules import check_bundle
from support.rollouts import body, post, served
from support.vllm_server import FakeVLLM

import vfnb as vf
from vfnb.clients.engines.embedded import MODEL
from vfnb.errors import ConfigError


def talk(client: vf.TrainClient, *, turns: int = 2, **keys: Any) -> vf.Trace:
    with served(client) as rollout:
        messages: list[Any] = []
        for turn in range(turns):
            messages.append({"role": "user", "content": f"What is {turn} + 4?"})
            status, raw = post(rollout, body(messages, max_tokens=40, **keys))[0]
            assert status == 200
            messages.append(
                {"role": "assistant", "content": json.loads(raw)["choices"][0]["message"]["content"]}
            )
    return rollout.trace


def test_the_engine_that_sampled_finds_its_own_numbers() -> None:
    engine = vf.Embedded()
    trace = talk(vf.TrainClient(engine))
    check = trace.verify_tokens(engine)
    assert check.checked == check.tokens == sum(sample.mask.sum() for sample in trace.samples())
    assert check.gap is not None and check.gap < 1e-4
    assert len(check.frame()) == 2 and list(check.frame()["checked"]) == [call.tokens for call in check.calls]
    check_bundle(check._repr_mimebundle_())
    assert "sampled tokens scored again by Embedded" in repr(check)


def test_a_number_that_is_wrong_is_found_with_its_place() -> None:
    engine = vf.Embedded()
    trace = talk(vf.TrainClient(engine))
    branch = trace.samples()[-1].source
    place = int(np.flatnonzero(branch.mask)[3])
    columns = trace.dag.columns
    assert columns is not None
    node = trace.dag.nodes[branch.path[-1]]
    columns.logprobs[node.end - (node.total - place)] -= 0.75
    check = trace.verify_tokens(engine)
    assert check.worst is not None
    assert check.gap == pytest.approx(0.75, abs=1e-3)
    assert (check.worst.position, check.worst.call) == (place, 1)
    assert check.worst.token == engine.tokenizer().decode([int(branch.token_ids[place])])


def test_other_distributions_are_not_compared_and_counted() -> None:
    engine = vf.Embedded()
    trace = talk(vf.TrainClient(engine), turns=1, temperature=0.7)
    check = trace.verify_tokens(engine)
    assert (check.checked, check.gap) == (0, None) and check.tokens > 0
    assert "not compared: sampled from another distribution" in repr(check)
    check_bundle(check._repr_mimebundle_())
    greedy = talk(vf.TrainClient(engine), turns=1, temperature=0).verify_tokens(engine)
    assert greedy.checked == greedy.tokens


def test_a_server_scores_what_this_process_sampled() -> None:
    trace = talk(vf.TrainClient(vf.Embedded()))
    with FakeVLLM(shape="0.32") as server, vf.VLLM("tiny", url=server.url, tokenizer=MODEL) as engine:
        check = trace.verify_tokens(engine)
    assert check.checked == check.tokens
    assert check.gap is not None and check.gap < 1e-4


def test_a_trace_without_tokens_and_a_model_without_them_say_so() -> None:
    check = vf.Trace().verify_tokens(vf.Embedded())
    assert "called by text" in repr(check) and check.gap is None
    with pytest.raises(ConfigError, match="needs a token engine"):
        vf.Trace().verify_tokens("gpt")
