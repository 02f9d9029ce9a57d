"""Recorded traffic of real programs: streams give the aggregated reply, requests read whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.paths import shared

from vfnb.dialects import Splitter, get

CHAT = get("chat")
FILES = [
    "kimi-code-cut1.json",
    "mini-swe-agent-basic.json",
    "openai-agents-chat.json",
    "opencode-compact.json",
    "pi-basic-chat.json",
]
FOLDER = shared() / "captures"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the recorded requests are not here")


def exchanges(name: str) -> list[dict[str, Any]]:
    data = json.loads(Path(FOLDER / name).read_text())
    return [entry for entry in data["exchanges"] if entry["path"].endswith("/chat/completions")]


@pytest.mark.parametrize("name", FILES)
def test_streams_give_the_aggregated_reply(name: str) -> None:
    streams = 0
    for entry in exchanges(name):
        if not entry.get("sse"):
            continue
        streams += 1
        raw = "".join(entry["sse"]).encode()
        for size in (1, 7, 64, len(raw)):
            reader = CHAT.reader()
            passed = b"".join(reader.feed(raw[start : start + size]) for start in range(0, len(raw), size))
            reader.close()
            assert passed + reader.held == raw
            if entry.get("note") == "cut":
                assert not reader.complete
                assert reader.partial_text == "  Runn"
                continue
            assert reader.complete
            assert reader.held.endswith(b"data: [DONE]\n\n")
            assert reader.response() == CHAT.parse_response(entry["response"])
    assert streams or not any(entry["body"].get("stream") for entry in exchanges(name))


@pytest.mark.parametrize("name", FILES)
def test_requests_are_read_incrementally_and_whole_alike(name: str) -> None:
    splitter = Splitter(CHAT)
    for number, entry in enumerate(exchanges(name)):
        body = json.dumps(entry["body"]).encode()
        split = splitter.split(body)
        CHAT.check(split)
        whole, tools = CHAT.parse_request(entry["body"])
        assert CHAT.read(split) == whole[split.n_known :]
        assert CHAT.read_tools(split) == (tools or [])
        assert len(whole) == len(entry["body"]["messages"])
        assert split.assemble({}) is body
        assert json.loads(split.assemble({"model": b'"x"'})) == entry["body"] | {"model": "x"}
        splitter.remember(split, number)


@pytest.mark.parametrize("name", ["pi-basic-chat.json", "openai-agents-chat.json"])
def test_growing_histories_are_known(name: str) -> None:
    splitter = Splitter(CHAT)
    for number, entry in enumerate(exchanges(name)):
        split = splitter.split(json.dumps(entry["body"]).encode())
        assert split.known == (number - 1 if number else None)
        assert len(split.items) == 2
        splitter.remember(split, number)


def test_replies_of_captures_survive_framing() -> None:
    for name in FILES:
        for entry in exchanges(name):
            if entry.get("note") == "cut" or not entry.get("response"):
                continue
            response = CHAT.parse_response(entry["response"])
            assert CHAT.read_response(CHAT.frame(response, response.model)) == response
