"""What an export refuses, leaves out or warns of: by trace, node and reason, and nothing half-written."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import assistant, system, user
from support.tokenruns import PROMPT, Talk, linear, save

import vfnb as vf
from vfnb.errors import ExportRefused
from vfnb.exchange import ExportOptions, export, read_episodes, read_manifest, read_sft
from vfnb.exchange.records import NodeRow, faults
from vfnb.store.layout import DATABASE_NAME

pytest.importorskip("pyarrow", reason="an environment from before the export extra: run make env")


def row(**changes: Any) -> NodeRow:
    fields: dict[str, Any] = {
        "parent": 0,
        "sampled": True,
        "message": assistant("4"),
        "raw": b"",
        "call": 0,
        "ids": np.array([1, 2, 3], np.int32),
        "mask": np.array([False, True, True]),
        "logprobs": np.array([-0.5, -0.25], np.float32),
    }
    return NodeRow(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mask": np.array([True, True])}, "mask has 2 values for 3 tokens"),
        ({"logprobs": np.array([-0.5], np.float32)}, "1 logprobs for 2 sampled tokens"),
        ({"logprobs": np.array([-0.5, -0.5, 0], np.float32)}, "3 logprobs for 2 sampled tokens"),
        ({"logprobs": np.array([-0.5, np.nan], np.float32)}, "a logprob is not finite"),
        ({"logprobs": np.array([-0.5, -np.inf], np.float32)}, "a logprob is not finite"),
        ({"logprobs": np.array([-0.5, 0.01], np.float32)}, "a logprob is positive (0.01)"),
        ({"parent": 1}, "its parent 1 is not an earlier node"),
        ({"parent": 7}, "its parent 7 is not an earlier node"),
        ({"parent": -2}, "its parent -2 is not an earlier node"),
        ({"sampled": False}, "mask is true on a message that the model did not sample"),
    ],
)
def test_a_node_that_contradicts_itself_is_named(changes: dict[str, Any], reason: str) -> None:
    first = row(parent=None, sampled=False, mask=np.zeros(3, bool), logprobs=np.zeros(0, np.float32))
    assert list(faults([first, row()])) == []
    assert list(faults([first, row(logprobs=np.array([5e-7, 0], np.float32))])) == []
    assert list(faults([first, row(**changes)])) == [(1, reason)]


def infinite() -> Talk:
    talk = linear("bad", reward=0.0)
    columns = talk.graph.columns
    assert columns is not None
    place = int(np.flatnonzero(columns.mask[: columns.size])[0])
    columns.logprobs[place] = -np.inf
    return talk


def said(**fields: Any) -> Callable[[], Talk]:
    def make() -> Talk:
        talk = Talk("bad", reward=0.0)
        talk.say(PROMPT, assistant("5"), **fields)
        return talk

    return make


def two_temperatures() -> Talk:
    talk = Talk("bad", reward=0.0)
    history = talk.say(PROMPT, assistant("5"))
    talk.say([*history, user("?")], assistant("4"), sampling_sent={"temperature": 0.5})
    return talk


def image() -> Talk:
    talk = Talk("bad", reward=0.0)
    url = vf.ImageUrlSource(url="data:image/png;base64,AAAA")
    seen = vf.UserMessage(content=[vf.ImageUrlContentPart(image_url=url)])
    talk.say([system(), seen], assistant("A cat."))
    return talk


def other_task() -> Talk:
    return linear("bad", reward=0.0, data={"prompt": "What is 3 + 3?"})


def broken_arguments() -> Talk:
    talk = Talk("bad", reward=0.0)
    talk.say(PROMPT, assistant(None, ("1", "add", '{"a": 2')))
    return talk


@pytest.mark.parametrize(
    ("make", "part", "node", "reason"),
    [
        (infinite, "all", 2, "a logprob is not finite"),
        (other_task, "all", None, "the task's data are not those of its group"),
        (said(sampling_sent={}), "rollouts", None, "no temperature on record; give temperature="),
        (said(sampling_sent={"temperature": 0}), "rollouts", None, "temperature 0; logits are divided by it"),
        (said(sampling_sent={"temperature": 0.5}), "rollouts", None, "temperature 0.5, while others have 1"),
        (two_temperatures, "rollouts", None, "several temperatures: 0.5, 1"),
        (image, "rollouts", 1, "its images are not carried without images="),
        (image, "sft", 1, "content that is not text cannot stand in a column of strings"),
        (broken_arguments, "sft", 2, "the arguments of tool call 'add' are not valid JSON"),
    ],
)
def test_what_cannot_be_carried_is_refused(
    tmp_path: Path, make: Callable[[], Talk], part: str, node: int | None, reason: str
) -> None:
    talks = [linear("fine", reward=1.0), linear("other", reward=0.25), make()]
    # records are checked in this process: they need not be ones that a store would keep
    traces = [(talk.trace.id, talk.trace) for talk in talks]
    options = ExportOptions(env="sums")
    with pytest.raises(ExportRefused, match="trace bad") as refused:
        export(traces, "prime-rl", tmp_path / "out", options)
    assert list(tmp_path.iterdir()) == []
    report = export(traces, "prime-rl", tmp_path / "out", options, skip_invalid=True)
    found = [note for note in report.refused if note.part == part]
    assert [(note.trace_id, note.node) for note in found] == [("bad", node)]
    assert found[0].reason.startswith(reason)
    assert refused.value.report.notes == report.notes  # type: ignore[attr-defined]
    kept = {row["trace_id"] for row in read_sft(report.dir / "sft")}
    assert kept - {"other"} == ({"fine"} if part in ("all", "sft") or make is image else {"fine", "bad"})
    episodes = read_episodes(report.dir / "episodes" / "traces.jsonl")
    assert [one["id"] for one in episodes][2:] == ([] if part == "all" else ["e-bad"])
    listed = [note for note in read_manifest(report.dir)["notes"] if note["part"] == part]
    assert [(note["trace_id"], note["node"]) for note in listed] == [("bad", node)]


def test_the_other_traces_of_a_refused_ones_episode_are_not_trained(tmp_path: Path) -> None:
    bad = infinite()
    bad.trace.episode_id = "shared"
    talks = [linear("a"), linear("b", reward=0.0), linear("sibling", episode="shared", reward=7.0), bad]
    traces = [(talk.trace.id, talk.trace) for talk in talks]
    report = export(traces, "prime-rl", tmp_path / "out", ExportOptions(env="sums"), skip_invalid=True)
    assert report.counts["rollout_samples"] == report.counts["sft_rows"] == 2
    episodes = read_episodes(report.dir / "episodes" / "traces.jsonl")
    assert [(one["id"], one["ok"]) for one in episodes] == [("e-a", True), ("e-b", True), ("shared", False)]


def test_a_temperature_can_be_given(tmp_path: Path) -> None:
    talks = [linear("fine"), said(sampling_sent={})()]
    traces = [(talk.trace.id, talk.trace) for talk in talks]
    report = export(traces, "prime-rl", tmp_path / "out", ExportOptions(env="sums", temperature=1.0))
    assert report.counts["rollout_samples"] == 2


def test_an_infinite_advantage_is_refused(tmp_path: Path) -> None:
    talks = [linear("a", reward=1.7e308), linear("b", reward=-1.7e308)]
    traces = [(talk.trace.id, talk.trace) for talk in talks]
    options = ExportOptions(env="sums", advantage="leave_one_out")
    with pytest.raises(ExportRefused, match="its advantage is inf"):
        export(traces, "prime-rl", tmp_path / "out", options)


def test_an_id_that_comes_twice_is_refused(tmp_path: Path) -> None:
    traces = [(talk.trace.id, talk.trace) for talk in (linear("a"), linear("b"), linear("a"))]
    with pytest.raises(ExportRefused, match="another trace has the same id"):
        export(traces, "sft", tmp_path / "out", ExportOptions())
    report = export(traces, "sft", tmp_path / "out", ExportOptions(), skip_invalid=True)
    assert report.counts == {"traces": 3, "sft_rows": 2}


def test_what_is_not_to_be_trained_is_left_out_with_the_reason(tmp_path: Path) -> None:
    bare = Talk("bare")
    bare.say(PROMPT, assistant("4"), tokens=False)
    dropped = linear("dropped")
    dropped.trace.dropped = "noisy"
    silent = Talk("silent")
    silent.call(list(PROMPT), None)
    shown = Talk("shown", reward=0.0)
    shown.say([*PROMPT[:1], user("1 + 1?"), assistant("2"), *PROMPT[1:]], assistant("4"))
    talks = [linear("fine"), linear("unscored", reward=None), bare, dropped, silent, shown]
    run = vf.load(asyncio.run(save(tmp_path / "run", talks)))
    report = run.export("prime-rl", tmp_path / "out", env="sums")
    assert report.refused == []
    found = {(note.trace_id, note.part, note.action): note.reason for note in report.notes}
    assert found == {
        ("unscored", "rollouts", "left out"): "no reward",
        ("bare", "rollouts", "left out"): "no tokens to train",
        ("dropped", "rollouts", "left out"): "dropped",
        ("dropped", "sft", "left out"): "dropped",
        ("silent", "rollouts", "left out"): "no tokens to train",
        ("silent", "sft", "left out"): "no reply to train",
        ("shown", "sft", "warning"): "replies that the model did not sample train too",
    }
    assert {row["trace_id"] for row in read_sft(report.dir / "sft")} == {"fine", "unscored", "bare", "shown"}
    records = read_episodes(report.dir / "episodes" / "traces.jsonl")
    trainable = {one["traces"][0]["id"]: one["traces"][0]["agent"]["trainable"] for one in records}
    assert trainable.pop("dropped") is False
    assert set(trainable.values()) == {True}
    assert not any(any(node["mask"]) for node in records[-1]["traces"][0]["nodes"][:4])


def test_a_damaged_record_is_refused_and_the_others_are_written(tmp_path: Path) -> None:
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a"), linear("b", reward=0.0), linear("c")])))
    run.close()
    with sqlite3.connect(tmp_path / "run" / DATABASE_NAME) as db:
        db.execute("UPDATE packs SET tokens = x'00ff' WHERE trace = (SELECT num FROM traces WHERE id = 'c')")
    db.close()
    run = vf.load(tmp_path / "run")
    with pytest.raises(ExportRefused, match="1 records cannot be exported, the first is trace c"):
        run.export("prime-rl", tmp_path / "out", env="sums")
    report = run.export("prime-rl", tmp_path / "out", env="sums", skip_invalid=True)
    assert report.counts["episode_traces"] == 2
    assert "refused (all): 1 times: trace c of" in repr(report)
    assert "<pre>" in report._repr_html_()
