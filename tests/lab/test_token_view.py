"""The tokens of a branch to look at: texts, marks, bounds, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.graphs import assistant, user
from support.html_rules import check_bundle
from support.talks import chain
from support.tokenruns import PROMPT, fork, linear
from support.views import HOSTILE
from tokenizers import Tokenizer

import vfnb as vf
from vfnb.clients.engines.embedded import MODEL
from vfnb.errors import ConfigError
from vfnb.lab.spelling import Spelling
from vfnb.trace import Trace


class Bytes:
    """A tokenizer whose tokens are bytes from 3 on; 0, 1, 2 and 7 are marks."""

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        told = b""
        for one in ids:
            if one in (0, 1, 2, 7):
                told += b"" if skip_special_tokens else b"<%d>" % one
            else:
                told += bytes([one - 3])
        return told.decode(errors="replace")


class Words:
    """A tokenizer as SentencePiece: the first word of a text has no space before it; no other argument."""

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(f"w{one}" for one in ids)


def test_both_twins_have_the_facts_with_and_without_a_tokenizer() -> None:
    view = linear("a").trace.branches[0].tokens
    bare = view._repr_mimebundle_()
    page = check_bundle(bare)
    assert view.tokenizer is None and view.texts is None
    for text in (bare["text/plain"], page.text):
        assert f"{len(view):,} tokens" in text
        assert ".with_tokenizer(engine)" in text
    assert str(view.ids[5]) in page.text
    bundle = view.with_tokenizer(Bytes())._repr_mimebundle_()
    page = check_bundle(bundle)
    for text in (bundle["text/plain"], page.text):
        for fact in (
            f"{int(view.sampled.sum()):,} sampled",
            "perplexity",
            "tokenizer Bytes",
            "assistant",
            "Be brief.",
        ):
            assert fact in text, fact
    assert "node 2 · call 0" in page.text


def test_the_table_has_every_token_with_its_source() -> None:
    branch = linear("a").trace.branches[0]
    table = branch.tokens.with_tokenizer(Bytes()).frame()
    assert list(table["position"]) == list(range(len(branch.token_ids)))
    assert table["token_id"].tolist() == branch.token_ids.tolist()
    assert table["sampled"].tolist() == branch.sampled_mask.tolist()
    assert table["mask"].tolist() == branch.mask.tolist()
    assert table["logprob"].notna().tolist() == branch.sampled_mask.tolist()
    np.testing.assert_array_equal(
        table["logprob"][branch.sampled_mask].to_numpy(), branch.logprobs[branch.sampled_mask]
    )
    assert set(table.loc[table["sampled"], "role"]) == {"assistant"}
    assert table.loc[table["node"] == 0, "role"].unique().tolist() == ["system"]
    assert table["special"].sum() == 2 * len(branch.path) + 2  # two marks a message, one before each reply
    assert branch.tokens.frame()["text"].isna().all()


def test_what_an_older_branch_trains_is_marked_as_context() -> None:
    branch = fork("a").trace.branches[1]
    view = branch.tokens.with_tokenizer(Bytes())
    assert 0 < view.mask.sum() < view.sampled.sum()
    bundle = view._repr_mimebundle_()
    page = check_bundle(bundle)
    assert "trained by older branches" in bundle["text/plain"]
    assert "trained by an older branch" in page.text
    assert "of an older branch" in page.text
    assert "trained elsewhere" in bundle["text/html"]


def test_how_unlikely_a_token_was_is_told_by_the_width_of_its_line() -> None:
    talk = linear("a", turns=1)
    branch = talk.trace.branches[0]
    where = np.flatnonzero(branch.sampled_mask)
    branch.graph.columns.logprobs[where] = -0.01
    branch.graph.columns.logprobs[where[3]] = -4.0
    html = talk.trace.branches[0].tokens.with_tokenizer(Bytes())._repr_mimebundle_()["text/html"]
    assert html.count("border-bottom:5px") == 2  # the key, and the token
    assert f'title="{where[3]}: {branch.token_ids[where[3]]} · logprob -4"' in html


def test_a_character_on_several_tokens_is_shown_once() -> None:
    talk = linear("a", turns=0)
    talk.say([user("你好 ünïcödé 🎈")], assistant("gut 👍🏽"))
    view = talk.trace.branches[0].tokens.with_tokenizer(Bytes())
    assert view.texts is not None
    told = "".join(view.texts)
    assert "你好 ünïcödé 🎈" in told and "gut 👍🏽" in told
    assert "\ufffd" not in told
    page = check_bundle(view._repr_mimebundle_())
    assert "你" in page.text and "🎈" in page.text and "◌" in page.text
    assert len(view.texts) == len(view)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=40))
@example(b"\x80\x80\xe1\x80\x80")
@example(b"\xe1\x80\xe1\x80\x80 \xf0\x9f\x8e\x88")
def test_texts_of_any_bytes_are_the_text_of_all(data: bytes) -> None:
    data = data.replace(b"\x04", b"")  # its token is a mark
    ids = [3 + byte for byte in data]
    texts = Spelling(Bytes()).texts(ids)
    assert len(texts) == len(ids)
    assert "".join(texts).replace("\ufffd", "") == data.decode(errors="replace").replace("\ufffd", "")


def test_words_that_need_their_neighbours_keep_their_spaces() -> None:
    assert Spelling(Words()).texts([1, 2, 3]) == ["w1", " w2", " w3"]


def test_special_tokens_are_known_of_every_kind_of_tokenizer() -> None:
    ours = vf.Embedded().tokenizer()
    theirs = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    ids = ours.encode_template("<|im_start|>user\nWhat is 3 + 4?<|im_end|>")
    for tokenizer in (ours, theirs):
        spelling = Spelling(tokenizer)
        assert [spelling.special(one) for one in ids] == [True, *[False] * (len(ids) - 2), True]
        assert "".join(spelling.texts(ids)) == "<|im_start|>user\nWhat is 3 + 4?<|im_end|>"
    assert Spelling(Bytes()).special(7) and not Spelling(Bytes()).special(70)


def test_a_tokenizer_may_come_as_engine_client_or_folder() -> None:
    view = linear("a").trace.branches[0].tokens
    for source in (vf.Embedded(), vf.TrainClient(vf.Embedded()), MODEL, str(MODEL)):
        assert view.with_tokenizer(source).tokenizer == "tiny"
    with pytest.raises(ConfigError, match=r"float is no tokenizer; .*vf\.Embedded\(\)"):
        view.with_tokenizer(1.5)


def test_a_range_shows_only_its_tokens() -> None:
    view = linear("a", turns=3).trace.branches[0].tokens.with_tokenizer(Bytes())
    part = view[60:200]
    assert len(part) == 140 and part.tokenizer == "Bytes"
    assert part.frame()["position"].tolist() == list(range(60, 200))
    assert part[10:20].ids.tolist() == view.ids[70:80].tolist()
    bundle = part._repr_mimebundle_()
    check_bundle(bundle)
    assert f"Tokens 60 to 200 of {len(view)}" in bundle["text/plain"]
    assert len(view[5:2]) == 0
    check_bundle(view[5:2]._repr_mimebundle_())
    with pytest.raises(TypeError, match="take a range"):
        view[3]


def test_a_long_branch_is_cut_and_says_what_shows_the_rest() -> None:
    talk = linear("a", turns=60)
    view = talk.trace.branches[0].tokens.with_tokenizer(Bytes())
    assert len(view) > 5_000
    bundle = view._repr_mimebundle_()
    page = check_bundle(bundle)
    assert "messages not shown; tokens[" in page.text
    assert "has them …" in page.text
    assert ".frame() has all tokens" in bundle["text/plain"]


def test_hostile_texts_stay_texts() -> None:
    talk = linear("a", turns=0)
    talk.say([*PROMPT, user(HOSTILE * 3)], assistant(HOSTILE))
    view = talk.trace.branches[0].tokens.with_tokenizer(Bytes())
    bundle = view._repr_mimebundle_()
    page = check_bundle(bundle)
    assert "<script" not in bundle["text/html"]
    assert "alert(1)" in page.text.replace("⏎", "")


def test_a_rollout_without_tokens_says_how_to_get_them() -> None:
    view = chain(2).branches[0].tokens
    bundle = view._repr_mimebundle_()
    page = check_bundle(bundle)
    for text in (bundle["text/plain"], page.text):
        assert "no tokens: this model was called by text" in text
    assert len(view) == 0 and len(view.frame()) == 0 and view.pieces == []
    assert repr(view) == "<0 tokens of branch 0, 0 sampled>"


def test_a_run_of_a_token_engine_knows_its_tokenizer(tmp_path: Path) -> None:
    task = vf.Task(vf.TaskData(prompt="What is 3 + 4?"))
    run = vf.evaluate([task], model=vf.Embedded(), dir=tmp_path / "run").wait(quiet=True)
    (branch,) = run.traces[0].branches
    view = branch.tokens
    assert view.texts is not None
    assert "What is 3 + 4?" in "".join(view.texts)
    assert view.texts[-1] == "<|im_end|>"
    loaded: Trace = vf.load(tmp_path / "run").traces[0]
    again = loaded.branches[0].tokens
    assert again.tokenizer is None
    assert again.with_tokenizer(vf.Embedded()).texts == view.texts
