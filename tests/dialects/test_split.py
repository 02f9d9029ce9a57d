"""Splitting: the known prefix gives what a full reading gives, and no byte is touched."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vfnb.dialects import Dialect, RequestError, Split, Splitter, get
from vfnb.dialects.chat import Chat
from vfnb.types import Messages, Response, Tool, UserMessage

CHAT = get("chat")

texts = st.text(max_size=12) | st.sampled_from(
    [
        '"messages": [',
        '\\"',
        "]}",
        "},{",
        '"messages":[{"role":"user"}]',
        "\\",
        "é☃",
        "\U0001f600",
        "a" * 60,
    ]
)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
items = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": texts}, optional={"x": values}
)
names = st.sampled_from(["model", "stream", "tools", "metadata", "a b", 'q"', "é", "message"])
fields = st.dictionaries(names, values, max_size=4)
styles = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " : ")])


def dump(
    before: dict[str, Any], history: list[Any], after: dict[str, Any], style: tuple[str, str], ascii: bool
) -> bytes:
    body = {
        **before,
        "messages": history,
        **{key: value for key, value in after.items() if key not in before},
    }
    text = json.dumps(body, ensure_ascii=ascii, separators=style)
    return text.encode("utf-8", "surrogatepass" if ascii else "replace")


def plain(split: Split) -> dict[str, Any]:
    return {key: msgspec.json.decode(raw) for key, raw in split.fields.items()}


def item_values(split: Split) -> list[Any]:
    return [msgspec.json.decode(item) for item in split.all_items()]


@settings(max_examples=150, deadline=None)
@given(
    before=fields,
    new_before=fields,
    after=fields,
    new_after=fields,
    history=st.lists(items, max_size=4),
    tail=st.lists(items, max_size=3),
    style=styles,
    ascii=st.booleans(),
)
def test_known_prefix_equals_full_reading(
    before: dict[str, Any],
    new_before: dict[str, Any],
    after: dict[str, Any],
    new_after: dict[str, Any],
    history: list[Any],
    tail: list[Any],
    style: tuple[str, str],
    ascii: bool,
) -> None:
    splitter = Splitter(CHAT)
    first = splitter.split(dump(before, history, after, style, ascii))
    assert first.known is None
    assert item_values(first) == history_of(first)
    splitter.remember(first, "mark")
    body = dump(new_before, history + tail, new_after, style, ascii)
    fast, full = splitter.split(body), Splitter(CHAT).split(body)
    if history:
        assert fast.known == "mark"
        assert fast.n_known == len(history)
        assert len(fast.items) == len(tail)
    assert plain(fast) == plain(full)
    assert list(map(bytes, fast.all_items())) == list(map(bytes, full.all_items()))
    assert (fast.start, fast.end) == (full.start, full.end)
    assert splitter.digest(fast) == Splitter(CHAT).digest(full)
    for key in fast.fields:
        start, end = fast.span(key)
        assert body[start:end] == bytes(fast.fields[key])
    splitter.remember(fast, "next")
    again = splitter.split(body)
    if history or tail:
        assert (again.known, again.n_known, again.items) == ("next", len(history) + len(tail), [])
    assert splitter.digest(again) == splitter.digest(fast)


def history_of(split: Split) -> list[Any]:
    return list(json.loads(split.body)["messages"])


@settings(max_examples=100, deadline=None)
@given(
    before=fields,
    after=fields,
    history=st.lists(items, max_size=3),
    style=styles,
    changes=st.dictionaries(names, st.none() | values.map(lambda value: [value]), max_size=3),
)
def test_assemble_changes_only_what_it_should(
    before: dict[str, Any],
    after: dict[str, Any],
    history: list[Any],
    style: tuple[str, str],
    changes: dict[str, Any],
) -> None:
    split = Splitter(CHAT).split(dump(before, history, after, style, True))
    wanted = json.loads(split.body)
    for key, value in changes.items():
        if value is None:
            wanted.pop(key, None)
        else:
            wanted[key] = value
    encoded = {key: None if value is None else json.dumps(value).encode() for key, value in changes.items()}
    body = split.assemble(encoded)
    assert json.loads(body) == wanted
    if split.start > 0:
        assert split.body[split.start : split.end] in body
    if not changes:
        assert body is split.body


@settings(max_examples=100, deadline=None)
@given(
    history=st.lists(items, min_size=1, max_size=6), cut=st.integers(0, 6), other=st.lists(items, max_size=3)
)
def test_forks_of_a_remembered_history(history: list[Any], cut: int, other: list[Any]) -> None:
    splitter = Splitter(CHAT)
    for length in range(1, len(history) + 1):
        split = splitter.split(dump({}, history[:length], {}, (",", ":"), True))
        splitter.remember(split, length)
    body = dump({}, history[:cut] + other, {}, (",", ":"), True)
    split = splitter.split(body)
    assert item_values(split) == history[:cut] + other
    assert split.n_known == (split.known or 0)
    assert split.n_known >= min(cut, len(history))


def body_of(history: list[str], **extra: Any) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": text} for text in history], **extra}).encode()


def test_replaced_items_keep_the_rest() -> None:
    split = Splitter(CHAT).split(b'{"model": "m", "messages": [{"role":"user","content":"a"}], "x": 1.0}')
    body = split.assemble({}, history="messages", items=[b'{"role":"user","content":"b"}', *split.items])
    assert json.loads(body)["messages"] == [
        {"role": "user", "content": "b"},
        {"role": "user", "content": "a"},
    ]
    assert b"1.0" in body


def test_prefix_must_end_at_an_item() -> None:
    splitter = Splitter(CHAT)
    splitter.remember(splitter.split(b'{"messages":[1]}'), "mark")
    assert splitter.split(b'{"messages":[12]}').known is None
    assert splitter.split(b'{"messages":[1 , 2]}').known == "mark"
    assert splitter.split(b'{"messages":[1]}').known == "mark"


def test_repeated_keys_mean_the_last_one() -> None:
    splitter = Splitter(CHAT)
    splitter.remember(splitter.split(b'{"messages":[{"a":1}]}'), "mark")
    for body in (
        b'{"messages":[{"a":1},{"b":1}],"messages":[{"b":1}],"model":"x"}',
        b'{"model":"y","messages":[{"a":1}],"messages":[{"c":1}],"model":"x"}',
    ):
        split = splitter.split(body)
        assert split.known is None
        assert list(map(bytes, split.items)) == [
            json.dumps(json.loads(body)["messages"][0]).replace(" ", "").encode()
        ]
        assert plain(split) == {"model": "x"}
        assert json.loads(split.assemble({"model": b'"z"'}))["model"] == "z"


def test_key_inside_another_value_is_not_the_history() -> None:
    splitter = Splitter(CHAT)
    splitter.remember(splitter.split(body_of(["a"])), "mark")
    history = b'"messages": [{"role": "user", "content": "a"}]'
    nested = b'{"metadata": {' + history + b"}, " + history + b"}"
    split = splitter.split(nested)
    assert split.known == "mark"
    assert set(split.fields) == {"metadata"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b'{"messages": [', b"\xff", b'{"messages": [{]}', b'{"a":1}x']
)
def test_what_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        Splitter(CHAT).split(body)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("value", "count"), [("[]", 0), ("null", 0), ('"text"', 1), ('{"a":1}', 1), ("[ ]", 0)]
)
def test_histories_that_are_no_list(value: str, count: int) -> None:
    split = Splitter(CHAT).split(f'{{"model":"m","messages":{value}}}'.encode())
    assert len(split.items) == count
    assert json.loads(split.assemble({"model": b'"z"'})) == {"model": "z", "messages": json.loads(value)}


def test_missing_history() -> None:
    split = Splitter(CHAT).split(b'{"model":"m"}')
    assert split.items == []
    assert plain(split) == {"model": "m"}


def test_lone_surrogates_are_read_the_slow_way() -> None:
    splitter = Splitter(CHAT)
    history = rb'"messages":[{"role":"user","content":"cut \ud83d"},{"role":"user","content":"x"}]'
    body = b'{"model":"m","meta":{"b":1,"a":2},' + history + b"}"
    split = splitter.split(body)
    assert [message.text for message in CHAT.read(split)] == ["cut \ud83d", "x"]
    assert CHAT.model(split.fields) == "m"
    assert split.assemble({}) is body
    assert json.loads(split.assemble({"model": b'"z"', "seed": b"1"})) == json.loads(body) | {
        "model": "z",
        "seed": 1,
    }
    splitter.remember(split, "mark")
    assert splitter.split(body).known is None
    other = body.replace(b'"b":1,"a":2', b'"a":2,"b":1')
    assert splitter.digest(split) == splitter.digest(splitter.split(other))


def test_number_and_size_of_tips_are_bounded() -> None:
    splitter = Splitter(CHAT, max_tips=3, max_bytes=4000)
    for number in range(10):
        splitter.remember(splitter.split(body_of([f"{number}" * 1000])), number)
    assert len(splitter._tips) == 3
    assert [splitter.split(body_of([f"{number}" * 1000])).known for number in (6, 7, 9)] == [None, 7, 9]
    splitter.remember(splitter.split(body_of(["x" * 9000])), "big")
    assert len(splitter._tips) == 1


def test_a_growing_history_keeps_one_body() -> None:
    splitter = Splitter(CHAT)
    for length in range(1, 30):
        split = splitter.split(body_of([str(number) * 50 for number in range(length)]))
        assert split.n_known == length - 1
        splitter.remember(split, length)
    assert len({id(tip.body) for tip in splitter._tips}) == 1
    assert splitter.split(body_of([str(number) * 50 for number in range(20)])).known == 20


def test_digest_ignores_order_and_space_at_every_level() -> None:
    a = b'{"messages":[{"role":"user","content":"x"}],"meta":{"a":1,"b":[{"c":1,"d":2}]},"model":"m"}'
    b = b'{"model" : "m", "meta":{"b":[{"d":2, "c":1}],"a":1}, "messages":[{"content":"x","role":"user"}]}'
    other = (
        b'{"model" : "m", "meta":{"b":[{"d":2, "c":1}],"a":2}, "messages":[{"content":"x","role":"user"}]}'
    )
    splitter = Splitter(CHAT)
    digests = [splitter.digest(splitter.split(body)) for body in (a, b, other)]
    assert digests[0] == digests[1] != digests[2]
    assert len(digests[0]) == 16
    assert splitter.keys(splitter.split(a)) == splitter.keys(splitter.split(b))


def test_digest_of_long_texts() -> None:
    word = "naïve \ud83d\n" * 1000
    items = [
        json.dumps({"role": "user", "content": word, "more": [word, 5]}),
        json.dumps({"more": [word, 5], "content": word, "role": "user"}, indent=2),
        json.dumps({"role": "user", "content": word, "more": [5, word]}),
        json.dumps({"role": "user", "content": word, "more": [word, "\0"]}),
        json.dumps({"role": "user", "content": word + " ", "more": [word, 5]}),
    ]
    splitter = Splitter(CHAT)
    split = splitter.split(b'{"messages": [' + ", ".join(items).encode() + b"]}")
    keys = splitter.keys(split)
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    assert split.value(0)["content"] == word
    assert splitter.keys(splitter.split(b'{"messages": [' + items[1].encode() + b"]}")) == keys[:1]


def test_who_defines_decode_or_closes_alone_is_asked_for_it() -> None:
    class Louder(Chat):
        name = "louder"

        def decode(self, item: msgspec.Raw | bytes) -> Messages:
            return [UserMessage(content=message.text.upper()) for message in super().decode(item)]

        def closes(self, item: msgspec.Raw) -> bool:
            return len(bytes(item)) > 5

    item = b'{"role":"user","content":"x"}'
    assert [message.text for message in Louder().decoded(item, None)] == ["X"]
    assert Louder().closed(msgspec.Raw(item), None)
    assert not Louder().closed(msgspec.Raw(b"5"), None)
    assert [message.text for message in Chat().decoded(item, {"role": "user", "content": "y"})] == ["y"]


class Headed(Dialect[dict[str, Any], dict[str, Any]]):
    """A format with instructions outside the history."""

    routes: ClassVar[tuple[str, ...]] = ("/v1/headed",)
    history: ClassVar[str | None] = "items"
    head_keys: ClassVar[tuple[str, ...]] = ("system",)

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        return [UserMessage(content=text) for text in (body["system"], *body["items"])], None

    def parse_response(self, resp: dict[str, Any]) -> Response:
        raise ValueError("not used")

    def closes(self, item: msgspec.Raw) -> bool:
        return not bytes(item).endswith(b'+"')


def test_other_instructions_make_another_history() -> None:
    splitter = Splitter(Headed())
    splitter.remember(splitter.split(b'{"system":"a","items":["x"]}'), "mark")
    assert splitter.split(b'{"system":"a","items":["x","y"]}').known == "mark"
    assert splitter.split(b'{"items":["x","y"],"system":"a"}').known == "mark"
    assert splitter.split(b'{"system":"b","items":["x","y"]}').known is None


def test_an_open_end_is_not_remembered() -> None:
    splitter = Splitter(Headed())
    splitter.remember(splitter.split(b'{"system":"a","items":["x+"]}'), "mark")
    assert splitter.split(b'{"system":"a","items":["x+","y"]}').known is None


def test_keys_before_the_history_may_change_with_many_tips() -> None:
    splitter = Splitter(CHAT)
    for number in range(8):
        body = json.dumps({"turn": number, "messages": [{"role": "user", "content": f"{number}"}]}).encode()
        splitter.remember(splitter.split(body), number)
    body = b'{"turn": [9], "messages": [{"role": "user", "content": "5"}, 1]}'
    split = splitter.split(body)
    assert split.known == 5
    assert plain(split) == {"turn": [9]}
    assert list(map(bytes, split.items)) == [b"1"]
