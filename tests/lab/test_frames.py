"""Frames: documented columns, typed, filtered in the store, honest about what is missing."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from support.bigrun import begin, chat_turns, end, token_trace, trace_of, write_run

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.lab.frames import frame, rewards
from vfnb.lab.schema import DTYPES, LEVELS, columns_of, schema
from vfnb.lab.where import parse
from vfnb.store import RunReader, RunStore, ScoreRow, ScoreVersion
from vfnb.trace.calls import ErrorInfo
from vfnb.trace.judging import JudgeCall


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 ended plain traces, one with tokens, one in error, one still running."""
    path = tmp_path_factory.mktemp("run")

    async def main() -> None:
        await write_run(path, 20, 6)
        with RunStore.create_or_open(path) as store:
            trace, deltas = token_trace(3, 5, id="tokens", episode_id="e-tokens", group_id="g")
            await begin(store, trace)
            for delta in deltas:
                await store.append("tokens", delta)
            trace.tags = ["long", "odd"]
            end(trace, 5)
            await store.finish_trace(trace)
            failed = trace_of(100)
            await begin(store, failed)
            failed.errors = [
                ErrorInfo(type="Boom", boundary="harness", message="it broke", at=3.25, stage="agent")
            ]
            failed.judge_calls = [JudgeCall(judge="correct", reply="yes", verdict=1.0, start=2.0, end=2.5)]
            failed.end_state = "error"
            await store.finish_trace(failed)
            running = trace_of(101)
            await begin(store, running)
            for delta in chat_turns(running, 4, 101):
                await store.append(running.id, delta)

    asyncio.run(main())
    return path


@pytest.fixture
def reader(folder: Path) -> RunReader:
    return RunReader(folder)


@pytest.mark.parametrize("level", list(LEVELS))
def test_columns_are_the_documented_ones(reader: RunReader, level: str) -> None:
    made = frame(reader, level)
    table = schema(level)
    assert list(made.columns) == list(table.index)
    assert [str(dtype) for dtype in made.dtypes] == list(table["dtype"])
    assert len(made) > 0
    assert made.attrs["level"] == level
    assert made.attrs["complete"] is False
    assert made.attrs["run"] == str(reader.dir)
    assert (table["meaning"].str.len() > 3).all()


@pytest.mark.parametrize("level", list(LEVELS))
def test_empty_run_has_the_same_columns(tmp_path: Path, level: str) -> None:
    RunStore.create_or_open(tmp_path).close()
    with RunReader(tmp_path) as empty:
        made = frame(empty, level)
    assert [str(dtype) for dtype in made.dtypes] == [DTYPES[column.kind] for column in columns_of(level)]
    assert len(made) == (1 if level == "runs" else 0)


def test_values_of_traces(reader: RunReader) -> None:
    made = frame(reader, "traces").set_index("trace")
    assert made.loc["tokens", "tags"] == "long,odd"
    assert made.loc["tokens", "turns"] == 3
    assert made.loc["t000100", "error_message"] == "it broke"
    assert made.loc["t000101", "state"] == "interrupted"  # it has no end, and nobody writes it
    assert pd.isna(made.loc["t000100", "reward"])
    assert pd.isna(made.loc["t000101", "ended"])
    assert made.loc["tokens", "agent_s"] == pytest.approx(1.0)
    first = reader.load_trace("t000000")
    assert made.loc["t000000", "reward"] == first.reward
    assert made.loc["t000000", "tokens_in"] == first.usage.prompt_tokens


def test_values_of_messages(reader: RunReader) -> None:
    made = frame(reader, "messages")
    for trace in reader.load_traces():
        rows = made[made["trace"] == trace.id]
        assert list(rows["text"]) == [node.message.text for node in trace.nodes]
        assert list(rows["role"]) == [node.message.role for node in trace.nodes]
        assert list(rows["parent"]) == [node.parent for node in trace.nodes]
        assert list(rows["sampled"]) == [node.sampled for node in trace.nodes]
    assert made[made["trace"] == "tokens"]["tokens"].sum() == len(
        reader.load_trace("tokens").branches[0].token_ids
    )
    assert made[made["trace"] == "t000000"]["tokens"].isna().all()
    assert (made[(made["trace"] == "tokens") & made["sampled"]]["tool_calls"] == 1).all()


def test_values_of_calls_and_branches(reader: RunReader) -> None:
    calls = frame(reader, "calls")
    one = calls[calls["trace"] == "tokens"].iloc[1]
    assert (one["model"], one["tokens_in"], one["tokens_out"], one["status"]) == ("synthetic", 1000, 513, 200)
    assert one["time_s"] == pytest.approx(1.5)
    assert one["ttft_s"] == pytest.approx(0.1)
    assert one["started"] == pd.Timestamp("2023-11-14 22:13:22", tz="UTC")
    branches = frame(reader, "branches").set_index("trace")
    assert branches.loc["t000000", "turns"] == 3
    assert branches.loc["t000101", "turns"] == 2  # running: computed from its journal
    branch = reader.load_trace("tokens").branches[0]
    assert branches.loc["tokens", "trainable_tokens"] == branch.mask.sum()


def test_values_of_tokens(reader: RunReader) -> None:
    made = frame(reader, "tokens", where="trace = 'tokens'")
    branch = reader.load_trace("tokens").branches[0]
    assert list(made["token"]) == branch.token_ids.tolist()
    assert list(made["sampled"]) == branch.sampled_mask.tolist()
    sampled = made[made["sampled"]]
    assert sampled["logprob"].tolist() == branch.logprobs[branch.sampled_mask].astype(float).tolist()
    assert made[~made["sampled"]]["logprob"].isna().all()


def test_values_of_errors_episodes_runs(reader: RunReader) -> None:
    (error,) = frame(reader, "errors").to_dict("records")
    assert (error["trace"], error["type"], error["stage"]) == ("t000100", "Boom", "agent")
    assert error["at"] == pd.Timestamp(3.25, unit="s", tz="UTC")
    assert len(frame(reader, "episodes")) == 23
    (run,) = frame(reader, "runs").to_dict("records")
    assert (run["traces"], run["finished"], run["running"], run["failed"], run["scored"]) == (
        23,
        22,
        0,
        1,
        21,
    )


def test_columns_and_where_are_pushed_down(reader: RunReader) -> None:
    whole = frame(reader, "messages")
    part = frame(reader, "messages", ["text", "trace"], "role = 'assistant' AND reward > 0.5 AND call >= 1")
    wanted = whole[(whole["role"] == "assistant") & (whole["reward"] > 0.5) & (whole["call"] >= 1)]
    assert list(part.columns) == ["text", "trace"]
    assert list(part["text"]) == list(wanted["text"])
    assert 0 < len(part) < len(whole)
    assert len(frame(reader, "messages", where="trace = 't000003'")) == 7
    either = frame(reader, "calls", ["call"], "trace = 't000001' OR tokens_out = 513")
    assert len(either) == 6
    late = frame(reader, "calls", ["trace"], "started BETWEEN 1700000000 AND 1700000003")
    assert list(late["trace"]) == ["tokens", "tokens"]
    assert list(frame(reader, "traces", ["trace"], "error = 'Boom'")["trace"]) == ["t000100"]
    assert len(frame(reader, "traces", where="reward IS NULL AND NOT superseded")) == 2


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("rewrd > 1", "no column 'rewrd'; did you mean 'reward'?"),
        ("reward > 1; DROP TABLE traces", "'; DROP TABLE' cannot stand"),
        ("reward > (SELECT 1)", "no column 'SELECT'"),
        ("1 = 1 UNION ALL", "no column 'UNION'"),
        ("ATTACH = 1", "no column 'ATTACH'"),
        ("load_extension('x')", "no function 'load_extension'"),
        ('trace = "x"', "single quotes"),
        ("trace = 'x", "no closing quote"),
        ("reward > 1 -- and", "not a condition"),
        ("(reward > 1", "brackets do not match"),
        ("reward) OR (1", "brackets do not match"),
        ("reward >", "not a condition"),
        (" ", "empty"),
        ("reward /* x */ > 1", "no column 'x'"),
    ],
)
@pytest.mark.parametrize("level", ["traces", "messages"])
def test_conditions_that_are_none(reader: RunReader, level: str, where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        frame(reader, level, where=where)


def test_conjuncts() -> None:
    names = ["a", "b", "c"]
    assert [sql for sql, _ in parse("a = 1 AND b BETWEEN 1 AND 2 AND (c OR a AND b)", names).parts] == [
        '"a" = 1',
        '"b" BETWEEN 1 AND 2',
        '( "c" OR "a" AND "b" )',
    ]
    assert len(parse("a = 1 AND b = 2 OR c = 3", names).parts) == 1
    assert len(parse("CASE WHEN a AND b THEN 1 ELSE 0 END AND c", names).parts) == 2
    assert parse("a = 'it''s; ok'", names).sql == "\"a\" = 'it''s; ok'"


def test_unknown_level_and_column(reader: RunReader) -> None:
    with pytest.raises(ConfigError, match="did you mean 'messages'"):
        frame(reader, "message")
    with pytest.raises(ConfigError, match="did you mean 'reward'"):
        frame(reader, "traces", ["rewards"])
    with pytest.raises(ConfigError, match=r"where= takes text such as"):
        frame(reader, "traces", where={"reward": 0.5})  # type: ignore[arg-type]
    assert list(frame(reader, "traces", columns="reward").columns) == ["reward"]
    with pytest.raises(ConfigError, match="no frame level"):
        schema("nothing")


def test_unreadable_trace_is_a_row(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 3, 4))
    db = sqlite3.connect(tmp_path / "run.sqlite", isolation_level=None)
    db.execute("UPDATE packs SET structure = x'00' WHERE trace = 2")
    db.close()
    with RunReader(tmp_path) as reader:
        for level in ("messages", "calls"):
            made = frame(reader, level)
            (row,) = made[made["unreadable"].notna()].to_dict("records")
            assert row["trace"] == "t000001"
            assert pd.isna(row["call"])
            assert set(made.attrs["unreadable"]) == {"t000001"}
            assert set(made["trace"]) == {"t000000", "t000001", "t000002"}
        assert len(frame(reader, "traces")) == 3


def test_rewards(reader: RunReader) -> None:
    made = rewards(reader)
    assert list(made.columns) == [
        "task",
        "rollout",
        "correct",
        "short",
        "length",
        "reward",
        "ok",
        "stop",
        "error",
    ]
    assert len(made) == 23
    trace = reader.load_trace("t000004")
    row = made.loc["t000004"]
    assert row["reward"] == trace.reward
    assert row["correct"] == trace.rewards["correct"].value
    assert row["length"] == trace.metrics["length"]
    assert pd.isna(made.loc["t000100", "reward"])
    assert made.loc["t000100", "error"] == "Boom"
    assert pd.isna(made.loc["t000101", "correct"])
    assert made.attrs["complete"] is False


def test_rewards_of_a_version_and_names_that_clash(tmp_path: Path) -> None:
    async def main() -> None:
        await write_run(tmp_path, 2, 2)
        with RunStore.create_or_open(tmp_path) as store:
            row = ScoreRow(trace="t000001", reward=0.5, rewards={"ok": (0.5, 1.0)}, metrics={"m": None})
            await store.add_scores(ScoreVersion(), [row])
            await store.supersede("t000000")

    asyncio.run(main())
    with RunReader(tmp_path) as reader:
        new, old = rewards(reader), rewards(reader, 0)
        assert list(new.columns) == ["task", "rollout", "score_ok", "m", "reward", "ok", "stop", "error"]
        assert list(new.index) == ["t000001"]
        assert new.loc["t000001", "score_ok"] == 0.5
        assert pd.isna(new.loc["t000001", "m"])
        assert "correct" in old.columns
        assert frame(reader, "traces", version=0).loc[1, "reward"] == old["reward"].iloc[0]
        assert frame(reader, "traces").loc[1, "reward"] == 0.5
    with RunReader(tmp_path) as reader:
        assert new.attrs["version"] == 1
        assert new.attrs["complete"] is True


def test_frames_of_an_empty_run(tmp_path: Path) -> None:
    RunStore.create_or_open(tmp_path).close()
    with RunReader(tmp_path) as reader:
        assert list(rewards(reader).columns) == ["task", "rollout", "reward", "ok", "stop", "error"]


def test_branches_say_what_they_are_linked_to(tmp_path: Path) -> None:
    @vf.harness
    async def compacts(session: vf.HarnessSession, task: vf.Task) -> str:
        first = await session.complete("the task")
        asked = [*first.messages, vf.UserMessage(content="Summarise.")]
        summary = await session.complete(asked, markers={"kind": "compaction"})
        return (await session.complete(f"Go on from: {summary.text}")).text

    model = vf.Scripted(["working", "the whole of the work so far", "done"])
    run = vf.evaluate([vf.Task(vf.TaskData(prompt="p"))], model=model, harness=compacts, dir=tmp_path / "run")
    run.wait(30, quiet=True)
    branches = run.frame("branches")
    trace = run.traces[0]
    (link,) = trace.links
    assert (link.kind, trace.nodes[link.target].text) == ("compaction_of", "the whole of the work so far")
    assert list(branches["linked_to"].fillna(-1)) == [-1, link.target]
    assert list(branches["returned_to"].isna()) == [True, True]
