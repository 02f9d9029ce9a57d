"""Recorded requests of real programs, sent again through the real server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from support.paths import shared
from support.rollouts import Served, client, served
from support.upstream import Say, Upstream
from vfnb_harnesses.program import ProgramHarness

from vfnb.clients import Relay

EXPECTED = {
    # calls, nodes, sampled, leaves, roots, causes of the forks
    "mini-swe-agent-basic": (5, 11, 5, 3, 1, ["history_edited", "history_edited"]),
    "openai-agents-chat": (3, 7, 3, 1, 1, []),
    "pi-basic-chat": (3, 7, 3, 1, 1, []),
    "opencode-compact": (5, 14, 5, 3, 2, ["compaction", "compaction"]),
    "kimi-code-cut1": (4, 10, 3, 1, 1, []),
    "claude-code-basic": (3, 8, 3, 1, 1, []),
    "claude-code-compact": (5, 17, 5, 4, 1, ["compaction"] * 3),
    "claude-code-subagent": (4, 13, 4, 2, 2, ["subagent"]),
    "pi-basic-anthropic": (3, 7, 3, 1, 1, []),
    "codex-basic": (3, 9, 3, 1, 1, []),
    "pi-basic-responses": (3, 7, 3, 1, 1, []),
    "codex-mcp": (2, 7, 2, 1, 1, []),
    "codex-compact": (5, 14, 5, 2, 1, ["compaction"]),
    "codex-e500": (5, 9, 3, 1, 1, []),
}


def load(name: str) -> list[dict[str, Any]]:
    path = shared() / "captures" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path} is not here; set VFNB_SHARED to the folder that has captures/")
    capture = json.loads(path.read_text())
    return [entry for entry in capture["exchanges"] if entry["method"] == "POST"]


def say(entry: dict[str, Any]) -> Say:
    if entry.get("sse"):
        events = [text.encode() for text in entry["sse"]]
        return Say(events=events, cut_after=len(events) if entry.get("note") == "cut" else None)
    return Say(status=entry["status"], raw=json.dumps(entry["response"]).encode())


async def replay(rollout: Served, entries: list[dict[str, Any]]) -> list[bytes]:
    """The answers; of a cut one, what came of it."""
    answers = []
    async with client(rollout) as http:
        for entry in entries:
            got = b""
            kept = (
                "accept",
                "user-agent",
                "content-type",
                "x-stainless-retry-count",
                "x-codex-turn-metadata",
            )
            headers = {key: value for key, value in entry["headers"] if key.lower() in kept}
            async with http.post(
                rollout.base_url + entry["path"], json=entry["body"], headers=headers
            ) as answer:
                try:
                    async for piece in answer.content.iter_any():
                        got += piece
                except aiohttp.ClientPayloadError:
                    assert entry["note"] == "cut"
            answers.append(got)
    return answers


@pytest.mark.parametrize("name", EXPECTED)
def test_the_graph_is_that_of_the_table(name: str) -> None:
    entries = load(name)
    calls, nodes, sampled, leaves, roots, causes = EXPECTED[name]
    says = [say(entry) for entry in entries]
    for entry, answer in zip(entries, says, strict=True):
        if entry.get("note") == "cut" and answer.events is not None:
            answer.events.append(b"")
            answer.pace = 0.01
    with (
        Upstream(list(says)) as upstream,
        served(Relay("", base_url=upstream.url, max_retries=0), markers=ProgramHarness.MARKERS) as rollout,
    ):
        answers = asyncio.run(replay(rollout, entries))
        dag = rollout.trace.dag
        assert len(dag.calls) == calls == len(entries)
        assert len(dag.nodes) == nodes
        assert sum(node.sampled for node in dag.nodes) == sampled
        assert len(dag.leaves) == leaves and len(dag.roots) == roots
        found = [branch.cause.cause for branch in rollout.trace.branches if branch.cause is not None]
        assert sorted(found) == sorted(causes)
        for entry, answer, said in zip(entries, answers, says, strict=True):
            sent = said.raw if said.raw is not None else b"".join(said.events or [])
            assert answer == sent or (entry.get("note") == "cut" and sent.startswith(answer) and answer)
        for entry, received in zip(entries, upstream.calls, strict=True):
            assert received.body == entry["body"]
        cut = [call for call in dag.calls if call.partial_text is not None]
        assert [call.partial_text for call in cut] == (["  Runn"] if name == "kimi-code-cut1" else [])


@pytest.mark.parametrize("declares", [True, False])
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("codex-compact", ["compaction_of"]),
        ("claude-code-compact", ["compaction_of"]),
        ("opencode-compact", ["compaction_of"]),
        ("claude-code-subagent", ["spawned_by", "returned_to"]),
        ("mini-swe-agent-basic", []),
    ],
)
def test_links_with_and_without_the_markers(name: str, kinds: list[str], declares: bool) -> None:
    entries = load(name)
    markers = ProgramHarness.MARKERS if declares else ()
    with (
        Upstream([say(entry) for entry in entries]) as upstream,
        served(Relay("", base_url=upstream.url, max_retries=0), markers=markers) as rollout,
    ):
        asyncio.run(replay(rollout, entries))
        links = rollout.trace.links
        assert [link.kind for link in links] == kinds
        for link in links:
            nodes = rollout.trace.dag.nodes
            assert nodes[link.source].branch != nodes[link.target].branch or name == "codex-compact"
            assert nodes[link.target].sampled == (link.kind != "returned_to")
        found = [branch.cause.cause for branch in rollout.trace.branches if branch.cause is not None]
        assert sorted(found) == sorted(EXPECTED[name][5])
