"""`trace.view()` from Python's side: structure, answers to the page, search, the static twin."""

from __future__ import annotations

import json
from pathlib import Path

from support.addition import taskset
from support.bigrun import token_trace
from support.html_rules import check_bundle
from support.talks import bushy, failed, family
from support.views import HOSTILE

import vfnb as vf
from vfnb.lab.widgets.base import WIDGET
from vfnb.lab.widgets.details import MAX_TEXT, detail
from vfnb.lab.widgets.outline import outline
from vfnb.trace import ModelCall, Trace, identity
from vfnb.types import AssistantMessage, Tool, UserMessage


def ask(view: object, *keys: str) -> dict[str, dict[str, object]]:
    """What the page gets for some keys."""
    view.wanted = {"keys": list(keys), "n": id(keys)}  # type: ignore[attr-defined]
    return dict(view.detail)  # type: ignore[attr-defined]


def test_the_outline_is_the_graph_in_plain_lists() -> None:
    trace = family(HOSTILE)
    made = json.loads(json.dumps(outline(trace)))
    size = len(trace.dag.nodes)
    lists = ("x", "y", "parent", "branch", "role", "sampled", "call", "text")
    assert {len(made[name]) for name in lists} == {size}
    assert made["tips"] == [[first, leaf] for first, leaf in trace.dag.tips.items()]
    assert made["main"] == trace.main.id  # type: ignore[union-attr]
    assert {fork["cause"] for fork in made["forks"].values()} == {"side_call", "subagent", "resample"}
    assert [kind for _, _, kind in made["links"]] == ["spawned by", "returned to"]
    assert made["state"] == "completed"
    assert "\x1b" not in json.dumps(made, ensure_ascii=False)


def test_a_trace_without_messages_and_a_failed_one_have_views() -> None:
    empty = Trace().view()
    assert empty.graph["tips"] == []
    assert empty.graph["main"] == -1
    view = failed().view()
    assert view.graph["tone"] == "bad"
    assert "UpstreamConnection" in view.graph["errors"][0]


def test_the_page_gets_messages_requests_and_forks_by_key() -> None:
    trace = Trace(id="a" * 32)
    tool = Tool(name="add", description="Adds.", parameters={"type": "object", "properties": {}})
    prompt = UserMessage(content=f"Hello {HOSTILE}")
    call = ModelCall(model="m", dialect="chat", start=1.0, end=3.5, sampling_asked={"temperature": 0.5})
    call.tools = trace.dag.add_tools([tool])
    trace.dag.commit(call, parent=-1, new=[(prompt, identity(prompt))], reply=AssistantMessage(content="Hi"))
    second = ModelCall(model="m", start=4.0, end=5.0)
    trace.dag.commit(second, parent=0, new=[], reply=AssistantMessage(content="Hi there"))
    view = trace.view()
    got = ask(view, *(f"{trace.id}:{key}" for key in ("message:0", "message:1", "request:0", "fork:2")))
    texts = {key.split(":", 1)[1]: value for key, value in got.items()}
    assert texts["message:0"]["pieces"][0][2].startswith("Hello <script>")  # type: ignore[index]
    assert ["took", "2.5 s"] in texts["message:1"]["facts"]  # type: ignore[operator]
    body = json.loads(str(texts["request:0"]["text"]).replace("\\x1b", "").replace("\\u202e", ""))
    assert body["temperature"] == 0.5
    assert body["tools"][0]["name"] == "add"
    assert len(body["messages"]) == 1
    assert texts["fork:2"]["older"] == 1
    assert ("right", " there") in [tuple(span) for span in texts["fork:2"]["spans"]]  # type: ignore[attr-defined]


def test_what_the_page_asks_wrongly_is_answered_with_the_reason() -> None:
    view = family().view()
    got = ask(view, "nonsense", f"{view.trace.id}:message:999", f"{view.trace.id}:other:0")
    assert all("error" in answer for answer in got.values())
    assert len(got) == 3


def test_tokens_of_a_message_come_with_logprobs_and_bounds() -> None:
    trace, _ = token_trace(3)
    sampled = next(node for node in trace.dag.nodes if node.sampled)
    found = detail(trace, "tokens", sampled.index)
    assert len(found["ids"]) == len(found["logprobs"]) == len(found["sampled"]) == sampled.end - sampled.start
    assert sum(found["sampled"]) > 0
    assert found["cut"] == 0
    assert detail(family(), "tokens", 0) == {"ids": []}


def test_long_texts_are_cut_with_their_length() -> None:
    trace = Trace()
    prompt = UserMessage(content="x" * (MAX_TEXT + 5))
    trace.dag.commit(ModelCall(), parent=-1, new=[(prompt, identity(prompt))], reply=None)
    text = detail(trace, "message", 0)["pieces"][0][2]
    assert text.endswith("(5 more characters)")


def test_search_looks_at_whole_messages_and_at_new_ones() -> None:
    trace = family()
    view = trace.view()
    view.query = "FORTY-two"
    assert view.hits == [12]
    more = UserMessage(content="forty-two again")
    trace.dag.commit(ModelCall(), parent=12, new=[(more, identity(more))], reply=None)
    view.refresh()
    assert len(view.graph["x"]) == 14
    view.query = "forty-two "
    assert view.hits == [12, 13]
    view.query = ""
    assert view.hits == []


def test_a_long_trace_opens_folded_and_small() -> None:
    view = bushy(2000).view()
    assert view.folded
    assert len(json.dumps(view.graph)) < 500_000
    assert not family().view().folded


def test_the_view_carries_the_twin_of_the_trace_and_a_short_repr() -> None:
    view = family(HOSTILE).view()
    data, _ = view._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == view.model_id
    check_bundle(data)
    assert data["text/html"] == view.trace._repr_mimebundle_()["text/html"]
    assert len(repr(view)) < 160


def test_tokens_have_texts_where_the_tokenizer_is_known(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(1), model=vf.Embedded(), dir=tmp_path / "run").wait(quiet=True)
    trace = run.traces[0]
    sampled = next(node for node in trace.dag.nodes if node.sampled)
    found = detail(trace, "tokens", sampled.index)
    assert trace.last_reply in "".join(found["texts"])
    assert len(found["texts"]) == len(found["ids"])
