"""Each row of the table in docs/translation.md is true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vfnb.clients.base import ModelRequest, Reply
from vfnb.clients.translated import Translator
from vfnb.dialects import RequestError, Splitter, get
from vfnb.dialects.translation import shown
from vfnb.types import AssistantMessage, Response

DIALECTS = ["chat", "responses", "messages", "gemini"]
PAGE = Path(__file__).parents[2] / "docs/translation.md"
PNG = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}
TEXT = {"type": "text", "text": "look"}


def translator(program: str, upstream: str, body: dict[str, Any], **run: Any) -> Translator:
    dialect = get(program)
    split = Splitter(dialect).split(json.dumps(body).encode())
    request = ModelRequest(
        dialect=dialect,
        body=split.body,
        split=split,
        messages=lambda: dialect.read(split),
        tools=dialect.read_tools(split),
        model="m",
        sampling=run,
        headers={"anthropic-beta": "x"},
    )
    return Translator(request, get(upstream), "served")


def cross(program: str, upstream: str, body: dict[str, Any], **run: Any) -> tuple[Any, list[str]]:
    """What the server gets of a request, and what is reported."""
    found = translator(program, upstream, body, **run)
    return json.loads(found.outgoing.body), found.dropped


def refused(program: str, upstream: str, body: dict[str, Any], what: str) -> None:
    with pytest.raises(RequestError, match=what) as caught:
        cross(program, upstream, body)
    assert caught.value.status == 400
    assert program in str(caught.value) and upstream in str(caught.value)


def chat(*messages: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"messages": list(messages) or [user("hi")], **keys}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def claude(*content: Any, **keys: Any) -> dict[str, Any]:
    return {"max_tokens": 5, "messages": [user(list(content) or "hi")], **keys}


def answered(program: str, upstream: str, body: dict[str, Any], message: AssistantMessage) -> Response:
    """An answer of the server's as the program's side records it."""
    back = translator(program, upstream, body).back(Reply(response=Response(message=message)))
    assert back.response is not None
    return back.response


# rows


def basics() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = chat(
        {"role": "system", "content": "S"},
        user("U"),
        {"role": "assistant", "content": "A", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "T"},
    )
    for upstream in DIALECTS[1:]:
        sent, dropped = cross("chat", upstream, body)
        messages = get(upstream).read(Splitter(get(upstream)).split(json.dumps(sent).encode()))
        assert [message.text for message in messages] == ["S", "U", "A", "T"]
        assert dropped == []
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "bad", "is_error": True}
    sent, _ = cross("messages", "gemini", claude(result))
    assert sent["contents"][0]["parts"][0]["functionResponse"]["response"] == {"error": "bad"}


def late_system() -> None:
    body = chat(user("U"), {"role": "system", "content": "S"})
    assert cross("chat", "messages", body)[0]["messages"][1]["role"] == "system"
    assert cross("chat", "responses", body)[0]["input"][1]["role"] == "system"
    (turn,) = cross("chat", "gemini", body)[0]["contents"]
    assert turn == {"role": "user", "parts": [{"text": "U"}, {"text": "S"}]}


def images() -> None:
    for source in (PNG, {"type": "url", "url": "https://x/y.png"}):
        url = "data:image/png;base64,AAAA" if source is PNG else "https://x/y.png"
        body = claude(TEXT, {"type": "image", "source": source})
        part = cross("messages", "chat", body)[0]["messages"][0]["content"][1]
        assert part == {"type": "image_url", "image_url": {"url": url}}
        assert cross("messages", "responses", body)[0]["input"][0]["content"][1]["image_url"] == url
        part = cross("messages", "gemini", body)[0]["contents"][0]["parts"][1]
        assert part.get("inlineData", {}).get("data") == "AAAA" or part["fileData"]["fileUri"] == url


def documents() -> None:
    body = claude({"type": "document", "source": PDF, "title": "a.pdf"})
    data = "data:application/pdf;base64,AAAA"
    file = {"type": "file", "file": {"file_data": data, "filename": "a.pdf"}}
    assert cross("messages", "chat", body)[0]["messages"][0]["content"] == [file]
    (part,) = cross("messages", "responses", body)[0]["input"][0]["content"]
    assert part["file_data"] == data
    (part,) = cross("messages", "gemini", body)[0]["contents"][0]["parts"]
    assert part["inlineData"]["mimeType"] == "application/pdf"


def documents_by_url() -> None:
    body = claude({"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}})
    assert cross("messages", "responses", body)[0]["input"][0]["content"][0]["file_url"] == "https://x/a.pdf"
    assert (
        cross("messages", "gemini", body)[0]["contents"][0]["parts"][0]["fileData"]["fileUri"]
        == "https://x/a.pdf"
    )
    refused("messages", "chat", body, "a.pdf")


def audio() -> None:
    body = chat(user([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]))
    assert cross("chat", "responses", body)[0]["input"][0]["content"][0]["type"] == "input_audio"
    (part,) = cross("chat", "gemini", body)[0]["contents"][0]["parts"]
    assert part == {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
    assert cross("gemini", "chat", {"contents": [{"parts": [part]}]})[0]["messages"] == body["messages"]
    refused("chat", "messages", body, "input_audio")


def provider_files() -> None:
    refused(
        "messages", "chat", claude({"type": "document", "source": {"type": "file", "file_id": "f1"}}), "f1"
    )
    refused("chat", "gemini", chat(user([{"type": "file", "file": {"file_id": "f2"}}])), "f2")


def result_media() -> None:
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [TEXT, {"type": "image", "source": PNG}]}
    sent, _ = cross("messages", "chat", claude(result, {"type": "text", "text": "go on"}))
    assert [message["role"] for message in sent["messages"]] == ["tool", "user", "user"]
    assert sent["messages"][0]["content"] == "look"
    assert sent["messages"][1]["content"][1]["type"] == "image_url"
    sent, _ = cross("messages", "responses", claude(result))
    assert [part["type"] for part in sent["input"][0]["output"]] == ["input_text", "input_image"]
    sent, _ = cross("messages", "gemini", claude(result))
    assert sent["contents"][0]["parts"][0]["functionResponse"]["parts"][0]["inlineData"]["data"] == "AAAA"


def thinking(signature: str = "") -> dict[str, Any]:
    thought = {"type": "thinking", "thinking": "hm", "signature": signature}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "A"}]}
    return {"max_tokens": 5, "messages": [user("U"), said, user("V")]}


def earlier_reasoning() -> None:
    sent, dropped = cross("messages", "chat", thinking())
    assert sent["messages"][1] == {"role": "assistant", "content": "A", "reasoning_content": "hm"}
    assert dropped == []
    for upstream in ("responses", "gemini"):
        sent, dropped = cross("messages", upstream, thinking())
        assert "hm" not in json.dumps(sent) and dropped == ["reasoning"]


def signatures() -> None:
    sent, dropped = cross("messages", "chat", thinking("c2ln"))
    assert "c2ln" not in json.dumps(sent) and dropped == ["reasoning signature"]
    kept = {"type": "redacted_thinking", "data": "ZW5j"}
    reply = {"type": "message", "content": [thinking("c2ln")["messages"][1]["content"][0], kept, TEXT]}
    message = get("messages").parse_response(reply).message
    found = answered("chat", "messages", chat(), message)
    framed = get("chat").frame(shown(found), "m")
    assert b"c2ln" not in framed and b"ZW5j" not in framed and b'"reasoning_content":"hm"' in framed
    again = translator("chat", "messages", chat())
    history = [*get("chat").parse_request(chat())[0], found.message]
    sent = json.loads(again._translation.body(history, {}, {}, "served", stream=False))
    assert sent["messages"][1]["content"] == reply["content"]


def hosted_results() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}
    given = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    said = {"role": "assistant", "content": [search, given, {"type": "text", "text": "A"}]}
    body = {"max_tokens": 5, "messages": [user("U"), said, user("V")]}
    sent, dropped = cross("messages", "chat", body)
    assert sent["messages"][1] == {"role": "assistant", "content": "A"}
    assert dropped == ["server_tool_use of an answer", "web_search_tool_result of an answer"]


def unknown_parts() -> None:
    refused(
        "messages", "chat", claude({"type": "search_result", "source": "s", "title": "t"}), "search_result"
    )
    refused("chat", "messages", chat(user([{"type": "video_url", "video_url": {"url": "u"}}])), "video_url")


def unknown_roles() -> None:
    refused("chat", "messages", chat({"role": "critic", "content": "no"}), "critic")
    for item in ({"type": "item_reference", "id": "x"}, {"type": "compaction", "encrypted_content": "x"}):
        refused("responses", "chat", {"input": [user("U"), item]}, str(item["type"]))


def function_tools() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = {"name": "add", "description": "adds", "input_schema": schema, "strict": True}
    sent, dropped = cross("messages", "chat", claude(tools=[tool | {"cache_control": {"type": "ephemeral"}}]))
    function = {"name": "add", "description": "adds", "parameters": schema, "strict": True}
    assert sent["tools"] == [{"type": "function", "function": function}] and dropped == []
    sent, _ = cross("messages", "gemini", claude(tools=[tool]))
    assert sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == schema


def plain_names() -> None:
    tool = {"type": "function", "name": "add", "parameters": {}, "strict": False}
    space = {"type": "namespace", "name": "mcp__calc", "description": "", "tools": [tool]}
    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": "add",
        "namespace": "mcp__calc",
        "arguments": "{}",
    }
    body = {"input": [{"role": "user", "content": "U"}, call], "tools": [space, tool | {"name": "a.b/c"}]}
    sent, _ = cross("responses", "chat", body)
    assert [entry["function"]["name"] for entry in sent["tools"]] == ["mcp__calc__add", "a_b_c"]
    assert sent["messages"][1]["tool_calls"][0]["function"]["name"] == "mcp__calc__add"
    made = [{"id": "c2", "name": "mcp__calc__add"}, {"id": "c3", "name": "a_b_c"}]
    message = answered("responses", "chat", body, AssistantMessage(tool_calls=made)).message
    assert [(call.namespace, call.name) for call in message.tool_calls] == [
        ("mcp__calc", "add"),
        (None, "a.b/c"),
    ]


def custom_tools() -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": "start: PATCH"}
    tool = {"type": "custom", "name": "apply_patch", "description": "patches", "format": form}
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** a"}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    body = {"input": [{"role": "user", "content": "U"}, call, output], "tools": [tool]}
    sent, dropped = cross("responses", "chat", body)
    function = sent["tools"][0]["function"]
    assert function["parameters"]["required"] == ["input"] and "start: PATCH" in json.dumps(function)
    assert sent["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"input":"*** a"}'
    assert sent["messages"][2]["content"] == "done" and dropped == []
    made = [{"id": "c2", "name": "apply_patch", "arguments": '{"input": "*** b"}'}]
    message = answered("responses", "chat", body, AssistantMessage(tool_calls=made)).message
    assert (message.tool_calls[0].type, message.tool_calls[0].arguments) == ("custom", "*** b")


def hosted_tools() -> None:
    tool = {"type": "web_search_20250305", "name": "web_search"}
    sent, dropped = cross("messages", "chat", claude(tools=[tool]))
    assert "tools" not in sent and dropped == ["tool web_search"]
    refused(
        "messages",
        "chat",
        claude(tools=[tool], tool_choice={"type": "tool", "name": "web_search"}),
        "web_search",
    )


def missing_ids() -> None:
    made = {"role": "model", "parts": [{"functionCall": {"name": "f"}}, {"functionCall": {"name": "g"}}]}
    given = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in ("g", "f")]
    body = {"contents": [{"parts": [{"text": "U"}]}, made, {"parts": given}]}
    sent, _ = cross("gemini", "chat", body)
    calls = {call["function"]["name"]: call["id"] for call in sent["messages"][1]["tool_calls"]}
    assert {m["tool_call_id"]: m["content"] for m in sent["messages"][2:]} == {
        calls["f"]: "f",
        calls["g"]: "g",
    }
    assert len(set(calls.values())) == 2


def settings() -> None:
    form = {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
    }
    asked = {
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["x"],
        "seed": 3,
        "response_format": form,
    }
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    asked |= {"tool_choice": "required", "parallel_tool_calls": False, "reasoning_effort": "low"}
    missing = {
        "responses": {"setting stop", "setting seed"},
        "messages": {"setting seed"},
        "gemini": {"setting parallel_tool_calls"},
    }
    for upstream, lost in missing.items():
        sent, dropped = cross("chat", upstream, chat(tools=tools, **asked))
        assert set(dropped) == lost
        split = Splitter(get(upstream)).split(json.dumps(sent).encode())
        known = get(upstream).sampling(split.fields)
        plain = {name for name in asked if f"setting {name}" not in lost} - {"response_format"}
        assert {name: known[name] for name in plain} == {name: asked[name] for name in plain}
        assert known["response_format"]["json_schema"]["schema"] == {"type": "object"}


def budgets() -> None:
    for budget, effort in ((1024, "low"), (8192, "medium"), (30000, "high")):
        body = claude(thinking={"type": "enabled", "budget_tokens": budget})
        assert cross("messages", "chat", body)[0]["reasoning_effort"] == effort
        body = {"contents": [{"parts": [{"text": "U"}]}]}
        body["generationConfig"] = {"thinkingConfig": {"thinkingBudget": min(budget, 24576)}}  # type: ignore[assignment]
        assert cross("gemini", "chat", body)[0]["reasoning_effort"] == effort


def quiet() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body = claude(TEXT | mark, metadata={"user_id": "u"}, system=[TEXT | mark])
    sent, dropped = cross("messages", "chat", body)
    assert dropped == [] and "cache_control" not in json.dumps(sent) and "metadata" not in sent
    sent, dropped = cross("chat", "messages", chat(user="u", store=True, prompt_cache_key="k"))
    assert dropped == [] and not {"user", "store", "prompt_cache_key"} & sent.keys()


def others() -> None:
    sent, dropped = cross("chat", "messages", chat(logit_bias={"5": 1}, logprobs=True))
    assert dropped == ["setting logit_bias", "setting logprobs"] and "logit_bias" not in sent


def stored() -> None:
    contents = [{"parts": [{"text": "U"}]}]
    refused("gemini", "chat", {"contents": contents, "cachedContent": "cachedContents/x"}, "cached content")
    refused("chat", "messages", chat(audio={"voice": "v"}, modalities=["audio"]), "spoken answers")
    for key in ("conversation", "prompt"):
        body = json.dumps({"input": "U", key: "x"}).encode()
        with pytest.raises(RequestError, match=key):
            get("responses").check(Splitter(get("responses")).split(body))


def headers() -> None:
    assert translator("messages", "chat", claude()).request.headers == {}


def extra_body() -> None:
    for upstream in DIALECTS[1:]:
        sent, dropped = cross("chat", upstream, chat(), extra_body={"vendor": {"x": 1}})
        assert sent["vendor"] == {"x": 1} and dropped == []


CASES: dict[str, Callable[[], None]] = {
    "texts, roles, order, tool calls, results of tools, `is_error`": basics,
    "a system message in mid-conversation": late_system,
    "images as data or by URL": images,
    "documents as data": documents,
    "documents by URL": documents_by_url,
    "audio": audio,
    "files that only a provider has (`file_id`)": provider_files,
    "images and documents in the result of a tool": result_media,
    "reasoning of earlier answers": earlier_reasoning,
    "signatures, encrypted reasoning, reasoning details": signatures,
    "results of hosted tools in earlier answers (web search and the like)": hosted_results,
    "parts of any other type that the program sends": unknown_parts,
    "messages of unknown roles, item references, compaction items": unknown_roles,
    "function tools, `strict`": function_tools,
    "names of tools with namespaces or characters that not all servers take": plain_names,
    "custom tools (free text, grammars)": custom_tools,
    "hosted tools": hosted_tools,
    "missing ids of tool calls (Gemini)": missing_ids,
    "`max_tokens`, `temperature`, `top_p`, `stop`, `tool_choice`, `parallel_tool_calls`, `response_format`, "
    "`reasoning_effort`, ...": settings,
    "a thinking budget": budgets,
    "`cache_control`, `metadata`, `user`, `store` and other keys that say nothing to the model": quiet,
    "other settings of the program": others,
    "stored prompts, conversations, cached content, spoken answers": stored,
    "headers of the program (`anthropic-beta`, `openai-beta`)": headers,
    "`extra_body` of the run": extra_body,
}


def test_the_table_has_these_rows() -> None:
    table = PAGE.read_text().partition("| what | becomes |")[2].partition("\n\n")[0]
    rows = [re.split(r"(?<!\\)\|", row)[1].strip() for row in table.strip().splitlines()[1:]]
    assert rows == list(CASES)


@pytest.mark.parametrize("row", CASES)
def test_row(row: str) -> None:
    CASES[row]()
