"""Random conversations over three templates: the tokens of the trace are those that the engine got and gave."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.tokens import Told, think

import vfnb as vf
from vfnb import loops
from vfnb.clients.chatml import ChatML
from vfnb.clients.hermes import Hermes
from vfnb.clients.template import Template, template
from vfnb.interception import Session
from vfnb.types import AssistantMessage, Message, Messages, SystemMessage, ToolMessage, UserMessage

CALC = vf.Tool(name="calc", parameters={"type": "object", "properties": {"expr": {"type": "string"}}})
WORDS = st.sampled_from(
    ["yes", "no", " 7 ", "a\nb", "é你🙂", "<|im_end|>", "The answer is 7.", "", "</think>"]
)
SAID = st.one_of(
    WORDS.map(lambda text: think(text or "x", "hm")),
    st.just(think('<tool_call>\n{"name":"calc","arguments":{"expr":"1 + 1"}}\n</tool_call>')),
    st.just(think('Two\n<tool_call>\n{"name": "calc", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name"')),
    st.just("<|im_end|>"),
    st.just("<think>\nnever ends"),
    st.just("cut of"),
)
PLAIN = st.one_of(WORDS.map(lambda text: f"{text}<|im_end|>"), st.just("cut"))
STEP = st.tuples(WORDS, st.sampled_from(["on", "on", "on", "again", "edit", "bare"]), st.integers(0, 5))


def client(kind: str, engine: Told) -> vf.TrainClient:
    made = vf.TrainClient(engine, renderer=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _ = made.template
    return made


def follow(reply: AssistantMessage, text: str) -> Messages:
    """What comes after a reply: results of its calls, or a question."""
    if reply.tool_calls:
        return [ToolMessage(tool_call_id=call.id, content=text) for call in reply.tool_calls]
    return [UserMessage(content=text)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["qwen3", "chatml", "hermes", "jinja"])
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_tokens_are_what_the_engine_got_and_gave(kind: str, data: st.DataObject) -> None:
    steps = data.draw(st.lists(STEP, min_size=1, max_size=7))
    says = PLAIN if kind == "chatml" else SAID
    engine = Told(data.draw(st.lists(says, min_size=len(steps), max_size=len(steps))))
    session = Session(vf.Trace(), client(kind, engine))
    tools = None if kind == "chatml" else [CALC]
    history: list[Message] = [SystemMessage(content="Be brief."), UserMessage(content="Hi")]
    for text, how, back in steps:
        completion = loops.engine().run(session.complete(history, tools=tools))
        reply = completion.message
        if how == "again":
            continue
        if how == "edit" and len(history) > 2:
            cut = min(back + 1, len(history) - 2)
            history = [*history[:-cut], UserMessage(content=f"other {text}")]
            continue
        if how == "bare":
            reply = reply.model_copy(update={"reasoning_content": None})
        history = [*history, reply, *follow(reply, text)]
    loops.engine().run(session.close())
    graph = session.graph
    assert len(graph.calls) == len(engine.asked) == len(steps)
    branches = session.trace.branches
    for call, asked, said in zip(graph.calls, engine.asked, engine.said, strict=True):
        assert call.reply_node is not None
        branch = next(branch for branch in branches if call.reply_node in graph.path(branch.leaf))
        length = graph.nodes[call.reply_node].total
        assert branch.token_ids[:length].tolist() == asked + said
    trained = sum(int(sample.mask.sum()) for sample in session.trace.samples())
    assert trained == sum(map(len, engine.said))


def shown(kind: str, messages: Messages) -> Template:
    engine = Told()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return template(engine, kind)


def test_jinja_and_the_made_renderer_write_the_same_prompt() -> None:
    from vfnb.clients.rendering import Offer, plain_messages

    tokenizer = vf.Embedded().tokenizer()
    made: Any = shown("qwen3", [])._renderer
    run: Any = shown("jinja", [])._renderer
    call = vf.ToolCall(id="c", name="calc", arguments='{"expr": "1 + 1"}')
    talk: Messages = [
        SystemMessage(content="Be brief."),
        UserMessage(content="1 + 1?"),
        AssistantMessage(content="Well.", reasoning_content="hm", tool_calls=[call, call]),
        ToolMessage(tool_call_id="c", content="2"),
        ToolMessage(tool_call_id="c", content="2"),
        AssistantMessage(content="2", reasoning_content="so"),
        UserMessage(content="2 + 2?"),
    ]
    offer = Offer([CALC])
    for end in (2, 5, 7):
        for first in (0, 1):
            for tools in (None, offer.plain):
                plain = plain_messages(talk[first:end])
                ours = run.render(plain, tools=tools, add_generation_prompt=True).token_ids
                theirs = made.render(plain, tools=tools, add_generation_prompt=True).token_ids
                assert tokenizer.decode(ours) == tokenizer.decode(theirs)
                assert ours == theirs


def test_chatml_puts_the_models_own_system_message_first() -> None:
    tokenizer = vf.Embedded().tokenizer()
    rendered = ChatML(tokenizer, "I am small.").render(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True
    )
    assert tokenizer.decode(rendered.token_ids) == (
        "<|im_start|>system\nI am small.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    owned = [i for i, c in zip(rendered.message_indices, rendered.is_content, strict=True) if c]
    assert set(owned) == {-1, 0}


def test_hermes_writes_tools_and_calls_as_text() -> None:
    from vfnb.clients.rendering import Offer

    tokenizer = vf.Embedded().tokenizer()
    renderer = Hermes(tokenizer, "I am small.")
    function = {"name": "calc", "arguments": {"expr": "1 + é"}}
    talk = [
        {"role": "user", "content": "1?"},
        {"role": "assistant", "content": "Well.", "tool_calls": [{"id": "c", "function": function}] * 2},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    ]
    rendered = renderer.render(talk, tools=Offer([CALC]).plain, add_generation_prompt=True)
    text = tokenizer.decode(rendered.token_ids)
    assert text.startswith("<|im_start|>system\nI am small.\n\n# Tools\n")
    assert '<tools>\n{"type": "function", "function": {"name": "calc"' in text.partition("<|im_end|>")[0]
    call = '<tool_call>\n{"name": "calc", "arguments": {"expr": "1 + é"}}\n</tool_call>'
    assert text.endswith(
        f"<|im_start|>user\n1?<|im_end|>\n<|im_start|>assistant\nWell.\n{call}\n{call}<|im_end|>\n"
        "<|im_start|>tool\n2<|im_end|>\n<|im_start|>assistant\n"
    )
    assert renderer.render(talk[:1]).token_ids == ChatML(tokenizer, "I am small.").render(talk[:1]).token_ids
    parsed = renderer.parse_response(tokenizer.encode(f"Well.\n{call}\n<tool_call>\n{{no JSON</tool_call>"))
    assert parsed.content == "Well." and [found.name for found in parsed.tool_calls] == ["calc", None]
    assert renderer.parse_response(tokenizer.encode(" a ")).content == " a "  # text alone as it is
    with pytest.raises(ValueError, match="it has no tools"):
        ChatML(tokenizer).render(talk)


def test_a_template_that_fits_no_model_says_so() -> None:
    engine = Told()
    engine.renderer = None
    with pytest.raises(vf.errors.ConfigError, match="no renderer is known for the model 'told'"):
        template(engine)
    with pytest.raises(vf.errors.ConfigError, match="there is no renderer 'qwen9'"):
        template(engine, "qwen9")
    with pytest.raises(vf.errors.ConfigError, match="does not fit the model"):
        template(engine, "gpt-oss")


def test_running_a_template_as_text_is_said_loudly() -> None:
    with pytest.warns(UserWarning, match="runs the chat template of told as text"):
        template(Told(), "jinja")


def test_tools_on_a_template_without_them_are_refused() -> None:
    engine = Told(["x<|im_end|>"])
    session = Session(vf.Trace(), vf.TrainClient(engine, renderer="chatml"))
    with pytest.raises(vf.errors.ModelError, match="no tools; renderer='hermes' writes them"):
        loops.engine().run(session.complete("Hi", tools=[CALC]))
    loops.engine().run(session.close())
