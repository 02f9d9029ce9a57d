"""What programs declare with their requests, by headers and by keys of the body."""

from __future__ import annotations

import asyncio
import timeit
from typing import Any

import msgspec
import pytest
from support.rollouts import MESSAGES, Served, client, served
from vfnb_harnesses.program import ProgramHarness

from vfnb.clients import Scripted
from vfnb.errors import ConfigError
from vfnb.interception import Marker
from vfnb.interception.markers import MarkerReader

AGENT = Marker(header="x-agent-id", agent=True)
THREAD = Marker(header="x-meta", pattern=r'"thread"\s*:\s*"([^"]+)"', agent=True)
COMPACT = Marker(header="x-meta", pattern='"compaction"', kind="compaction")
CACHE = Marker(field="prompt_cache_key", agent=True)
BILLING = Marker(field="system", pattern="is_subagent=true", kind="subagent")


def read(markers: list[Marker], headers: dict[str, str] | None = None, **body: Any) -> dict[str, str]:
    fields = {key: msgspec.Raw(msgspec.json.encode(value)) for key, value in body.items()}
    return MarkerReader(markers).read(headers or {}, fields)


def test_without_markers_only_our_own_headers_count() -> None:
    assert read([], {"x-agent-id": "a"}) == {}
    own = {"x-vfnb-kind": "side_call", "x-vfnb-agent": "a", "x-vfnb-parent": "b"}
    assert read([AGENT], {**own, "x-agent-id": "other"}) == {
        "kind": "side_call",
        "agent": "a",
        "parent": "b",
    }


def test_headers_by_presence_by_pattern_and_by_group() -> None:
    assert read([AGENT], {"x-agent-id": "a7"}) == {"agent": "a7"}
    meta = {"x-meta": '{"thread": "t1", "what": "compaction"}'}
    assert read([THREAD, COMPACT], meta) == {"agent": "t1", "kind": "compaction"}
    assert read([COMPACT, Marker(header="x-meta", kind="subagent")], meta) == {"kind": "compaction"}
    assert read([THREAD, COMPACT], {"x-meta": '{"what": "turn"}'}) == {}


def test_keys_of_the_body_by_their_raw_text() -> None:
    assert read([CACHE], prompt_cache_key="session_1") == {"agent": "session_1"}
    assert read([CACHE], prompt_cache_key=None) == {}
    assert read([BILLING], system=[{"type": "text", "text": "x; is_subagent=true;"}]) == {"kind": "subagent"}
    assert read([BILLING], system="is_subagent=false") == {}
    assert read([Marker(field="user", pattern="é(.)", agent=True)], user="éü") == {"agent": "ü"}


def test_what_is_declared_is_bounded() -> None:
    assert len(read([AGENT], {"x-agent-id": "a" * 5000})["agent"]) == 256


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"agent": True}, "needs a header or a field"),
        ({"header": "x", "field": "y", "agent": True}, "not both"),
        ({"header": "X-Agent", "agent": True}, "'x-agent'"),
        ({"header": "x"}, "declares nothing"),
        ({"header": "x", "kind": "summary"}, "compaction, subagent, side_call"),
        ({"header": "x", "kind": "subagent", "pattern": "("}, "no regular expression"),
    ],
)
def test_a_marker_that_cannot_work_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Marker(**wrong)


def test_calls_have_what_their_requests_declare() -> None:
    async def ask(rollout: Served, headers: dict[str, str], **more: Any) -> None:
        async with client(rollout) as http:
            body = {"model": "m", "messages": MESSAGES, **more}
            async with http.post(rollout.url, json=body, headers=headers) as answer:
                assert answer.status == 200

    with served(Scripted(["a", "b", "c"]), markers=[THREAD, CACHE]) as rollout:
        asyncio.run(ask(rollout, {"X-Meta": '{"thread": "t1"}'}))
        asyncio.run(ask(rollout, {}, prompt_cache_key="k"))
        asyncio.run(ask(rollout, {"X-VFNB-Parent": "t1"}))
        found = [call.markers for call in rollout.trace.calls]
    assert found == [{"agent": "t1"}, {"agent": "k"}, {"parent": "t1"}]


def test_programs_started_by_hand_are_recognised() -> None:
    meta = '{"thread_id": "t1", "request_kind": "compaction"}'
    headers = {"x-codex-turn-metadata": meta, "x-codex-parent-thread-id": "t0"}
    assert read(list(ProgramHarness.MARKERS), headers) == {
        "kind": "compaction",
        "agent": "t1",
        "parent": "t0",
    }
    assert read(list(ProgramHarness.MARKERS), {"x-claude-code-agent-id": "a1"}) == {"agent": "a1"}


def test_looking_costs_next_to_nothing() -> None:
    plain, rules = MarkerReader(), MarkerReader([AGENT, THREAD, COMPACT, CACHE, BILLING])
    headers = {f"x-{n}": "v" for n in range(12)}
    fields = {"system": msgspec.Raw(b'"' + b"word " * 2000 + b'"')}
    for reader, bound in ((plain, 3e-6), (rules, 60e-6)):
        assert (
            min(timeit.repeat(lambda r=reader: r.read(headers, fields), number=200, repeat=5)) / 200 < bound
        )
