"""The hand-off to prime-rl: what is written is read back bit by bit."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import assistant, tool
from support.tokenruns import PROMPT, Talk, fork, linear, save

import vfnb as vf
from vfnb.errors import ConfigError, ExportRefused, MissingExtra, RunNotFinished
from vfnb.exchange import (
    ExportReport,
    MicroBatch,
    Piece,
    pack,
    read_episodes,
    read_manifest,
    read_rollouts,
    read_samples,
    read_sft,
    read_training_samples,
)

pytest.importorskip("pyarrow", reason="an environment from before the export extra: run make env")

OPTIONS: dict[str, Any] = {"env": "sums", "seq_len": 2048}


def exported(tmp_path: Path, talks: list[Talk], format: str = "prime-rl", **options: Any) -> ExportReport:
    run = vf.load(asyncio.run(save(tmp_path / "run", talks)))
    return run.export(format, tmp_path / "out", **(OPTIONS | options))


def pieces(report: ExportReport) -> list[tuple[list[int], list[bool], list[float], list[float]]]:
    """Every sample in the micro-batches: ids, mask, logprobs, advantages. Dummies have no true in the mask."""
    found = []
    for batches in read_rollouts(report.dir / "run")[1]:
        for batch in batches:
            at = 0
            for length in batch.sequence_lengths:
                cut = slice(at, at + length)
                assert batch.position_ids[cut] == list(range(length))
                found.append(
                    (
                        batch.input_ids[cut],
                        batch.loss_mask[cut],
                        batch.inference_logprobs[cut],
                        batch.advantages[cut],
                    )
                )
                at += length
    return found


def same(report: ExportReport, talks: list[Talk], advantages: dict[str, float]) -> None:
    """The micro-batches hold exactly the samples of these rollouts."""
    wanted = {
        tuple(sample.token_ids.tolist()): (sample, advantages[talk.trace.id])
        for talk in talks
        for sample in talk.trace.samples()
    }
    found = [each for each in pieces(report) if any(each[1])]
    assert len(found) == len(wanted)
    for ids, mask, logprobs, advantage in found:
        sample, value = wanted.pop(tuple(ids))
        assert mask == sample.mask.tolist()
        assert np.array(logprobs, np.float32).tobytes() == sample.logprobs.tobytes()
        assert advantage == [value] * len(ids)


def test_linear_rollouts_come_back_bit_by_bit(tmp_path: Path) -> None:
    talks = [linear("a", reward=1.0), linear("b", 3, reward=0.0), linear("c", 1, reward=0.3)]
    report = exported(tmp_path, talks)
    mean = 1.3 / 3
    advantages = {"a": 1.0 - mean, "b": 0.0 - mean, "c": 0.3 - mean}
    same(report, talks, advantages)
    assert not report.notes
    for batches in read_rollouts(report.dir / "run")[1]:
        for batch in batches:
            assert set(batch.temperatures) == {1.0}
            assert set(batch.env_names) == {"sums"}
    episodes = read_episodes(report.dir / "episodes" / "traces.jsonl")
    assert [one["id"] for one in episodes] == ["e-a", "e-b", "e-c"]
    for episode, talk in zip(episodes, talks, strict=True):
        (record,) = episode["traces"]
        assert record["agent"] == {"config": {}, "name": "agent", "trainable": True}
        sample = talk.trace.samples()[0]
        assert [i for node in record["nodes"] for i in node["token_ids"]] == sample.token_ids.tolist()
        assert [m for node in record["nodes"] for m in node["mask"]] == sample.mask.tolist()
        logprobs = [value for node in record["nodes"] for value in node["logprobs"]]
        assert np.array(logprobs, np.float32).tobytes() == sample.logprobs[sample.mask].tobytes()
        given = [value for node in record["nodes"] for value in node.get("advantages", [])]
        assert given == [advantages[talk.trace.id]] * len(logprobs)
    rows = read_sft(report.dir / "sft")
    assert [(row["trace_id"], row["reward"], len(row["messages"])) for row in rows] == [
        ("a", 1.0, 5),
        ("b", 0.0, 7),
        ("c", 0.3, 3),
    ]
    lines = (report.dir / "sft_jsonl" / "train.jsonl").read_text().splitlines()
    assert [json.loads(line)["task_hash"] for line in lines] == [row["task_hash"] for row in rows]
    manifest = read_manifest(report.dir)
    assert manifest["counts"] == report.counts
    assert manifest["target"]["commit"] == "559b4477"


def test_a_reply_that_branches_share_trains_once(tmp_path: Path) -> None:
    talks = [fork("a", reward=1.0), linear("b", reward=0.0)]
    report = exported(tmp_path, talks)
    same(report, talks, {"a": 0.5, "b": -0.5})
    sampled = talks[0].graph.columns.mask.sum()  # type: ignore[union-attr]
    assert sum(sum(mask) for ids, mask, _, value in pieces(report) if value[0] > 0) == sampled
    assert [row["trace_id"] for row in read_sft(report.dir / "sft")] == ["a", "b"]


def test_an_untrained_second_agent_is_kept_in_the_episode_only(tmp_path: Path) -> None:
    talks = [
        linear("a", episode="one", reward=1.0),
        linear("judge", episode="one", agent="judge", reward=5.0),
        linear("b", reward=0.0),
    ]
    report = exported(tmp_path, talks, agents=["agent"])
    same(report, [talks[0], talks[2]], {"a": 0.5, "b": -0.5})
    first, _ = read_episodes(report.dir / "episodes" / "traces.jsonl")
    assert [(one["agent"]["name"], one["agent"]["trainable"]) for one in first["traces"]] == [
        ("agent", True),
        ("judge", False),
    ]
    assert {row["trace_id"] for row in read_sft(report.dir / "sft")} == {"a", "b"}


def test_an_errored_sibling_keeps_its_episode_out_of_training(tmp_path: Path) -> None:
    talks = [
        linear("a", reward=1.0),
        linear("b", reward=0.0),
        linear("c", episode="shared", reward=9.0),
        linear("d", episode="shared").failed(),
    ]
    report = exported(tmp_path, talks)
    same(report, talks[:2], {"a": 0.5, "b": -0.5})
    frame = report.frame()
    assert set(frame[frame["part"] == "rollouts"]["reason"]) == {
        "another trace of its episode is not ok",
        "not ok: error (ToolServerError)",
    }
    episodes = read_episodes(report.dir / "episodes" / "traces.jsonl")
    assert [one["ok"] for one in episodes] == [True, True, False]
    assert episodes[2]["traces"][1]["errors"][0]["type"] == "ToolServerError"
    assert {row["trace_id"] for row in read_sft(report.dir / "sft")} == {"a", "b"}


def test_equal_rewards_ship_nothing_and_say_so(tmp_path: Path) -> None:
    talks = [linear("a", reward=0.1), linear("b", reward=0.1), linear("c", reward=0.1)]
    with pytest.raises(ExportRefused, match="there is no micro-batch") as refused:
        exported(tmp_path, talks)
    report = refused.value.report
    assert isinstance(report, ExportReport)
    assert [note.reason[:11] for note in report.notes] == ["advantage 0"] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    shipped = vf.load(tmp_path / "run").export("prime-rl", tmp_path / "out", **OPTIONS, weights=likely)
    record = read_episodes(shipped.dir / "episodes" / "traces.jsonl")[0]["traces"][0]
    assert set(record["nodes"][2]["advantages"]) == {0.0}
    other = [linear("d", group="h", reward=1.0), linear("e", group="h", reward=0.0)]
    mixed = vf.load(asyncio.run(save(tmp_path / "mixed", [*talks, *other])))
    report = mixed.export("prime-rl", tmp_path / "more", **OPTIONS)
    assert report.counts["rollout_samples"] == 2
    assert report.counts["sft_rows"] == 5


def likely(sample: vf.Sample) -> dict[str, Any]:
    """Each sampled token by its likelihood."""
    return {"rl": np.zeros(len(sample)), "ce": sample.mask}


def test_longer_than_the_sequence_is_cut_at_the_tail(tmp_path: Path) -> None:
    talks = [linear("a", 6, reward=1.0), linear("b", 1, reward=0.0)]
    whole = talks[0].trace.samples()[0]
    first = int(np.flatnonzero(whole.mask)[0])
    report = exported(tmp_path, talks, seq_len=first + 10)
    (cut,) = [each for each in pieces(report) if each[3][0] > 0]
    assert cut[0] == whole.token_ids[: first + 10].tolist()
    assert sum(cut[1]) == 10
    assert any(note.reason.startswith(f"cut to {first + 10} of {len(whole)}") for note in report.notes)
    with pytest.raises(ExportRefused, match="nothing to train within 8 tokens"):
        vf.load(tmp_path / "run").export("prime-rl", tmp_path / "short", env="sums", seq_len=8)
    (sample,) = [one for one in read_training_samples(report.dir / "samples") if one.advantages[0] > 0]  # type: ignore[index]
    assert sample.token_ids == whole.token_ids.tolist()


def test_arguments_with_differing_keys_stay_as_they_were(tmp_path: Path) -> None:
    tools = [
        {"name": "add", "description": "Sum.", "parameters": {"type": "object", "properties": {"a": {}}}},
        {"name": "look", "description": "Read.", "parameters": {"type": "object"}},
    ]
    talk = Talk("a")
    asked = assistant(
        None, ("1", "add", '{"a": 2, "b": 2}'), ("2", "look", '{"path": null}'), reasoning="Hm."
    )
    history = talk.say(PROMPT, asked, tools=tools)
    talk.say([*history, tool("1", "4"), tool("2", "nothing")], assistant("4"), tools=tools)
    report = exported(tmp_path, [talk, linear("b", reward=0.0)])
    first, second = read_sft(report.dir / "sft")
    calls = first["messages"][2]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"a": 2, "b": 2}', '{"path": null}']
    assert first["messages"][2]["reasoning_content"] == "Hm."
    assert first["messages"][2]["content"] == ""
    assert first["messages"][3]["tool_call_id"] == "1"
    assert [one["function"] for one in json.loads(first["tools"])] == tools
    assert second["tools"] is None
    record = read_episodes(report.dir / "episodes" / "traces.jsonl")[0]["traces"][0]
    assert [one["name"] for one in record["tools"]] == ["add", "look"]
    assert record["nodes"][2]["message"]["tool_calls"][1] == {
        "id": "2",
        "name": "look",
        "arguments": '{"path": null}',
    }


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    talks = [linear("a", reward=1.0), fork("b", reward=0.0)]
    run = vf.load(asyncio.run(save(tmp_path / "run", talks)))
    for name in ("one", "two"):
        run.export("prime-rl", tmp_path / name, ranks=2, **OPTIONS)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())
    assert [str(name) for name in files] == [
        "episodes/traces.jsonl",
        "live/prime_rl.toml",
        "live/trainer.toml",
        "live/vfnb_tasks_sums/__init__.py",
        "live/vfnb_tasks_sums/tasks.jsonl",
        "manifest.json",
        "run/rollouts/step_1/rank_0.bin",
        "run/rollouts/step_1/rank_1.bin",
        "samples/samples.msgpack",
        "sft/train.parquet",
        "sft_jsonl/train.jsonl",
    ]
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


# Packing


def some(*lengths: int) -> list[Piece]:
    return [
        Piece([at + 5] * n, [False] + [True] * (n - 1), [-0.5] * n, float(at + 1), 0.7, "sums")
        for at, n in enumerate(lengths)
    ]


@pytest.mark.parametrize("lengths", [(5,), (5, 4, 3, 2, 2, 2), (8, 8, 8), (1, 1, 1, 1, 1, 1, 1, 1, 1)])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("pad_to", [1, 4])
def test_every_rank_gets_as_many_batches_and_every_token_is_there_once(
    lengths: tuple[int, ...], ranks: int, pad_to: int
) -> None:
    dealt = pack(some(*lengths), seq_len=8, ranks=ranks, pad_to=pad_to)
    assert len(dealt) == ranks
    assert len({len(batches) for batches in dealt}) == 1
    trained = []
    for batch in (batch for batches in dealt for batch in batches):
        count = len(batch.input_ids)
        assert count <= 8 and count % pad_to == 0
        assert sum(batch.sequence_lengths) == sum(batch.seq_lens) == count
        trained += [value for value, flag in zip(batch.advantages, batch.loss_mask, strict=True) if flag]
    wanted = [float(at + 1) for at, n in enumerate(lengths) for _ in range(n - 1)]
    assert sorted(trained) == wanted


def test_the_wire_is_arrays_in_the_trainers_order() -> None:
    import msgspec

    from vfnb.exchange.wire import encode_batches

    ((batch,),) = pack(some(2, 1), seq_len=8, pad_to=4)
    assert msgspec.msgpack.decode(encode_batches([batch])) == [
        [
            [5, 5, 6, 1],
            [False, True, False, False],
            [1.0, 1.0, 2.0, 0.0],
            [-0.5, -0.5, -0.5, 0.0],
            [0, 1, 0, 0],
            [2, 2],
            [0.7, 0.7, 0.7, 1.0],
            ["sums", "sums", "sums", ""],
            [2, 2],
        ]
    ]
    assert isinstance(batch, MicroBatch)


# Other formats, folders, options


def test_arrow_has_the_samples_with_their_types(tmp_path: Path) -> None:
    talks = [linear("a", reward=1.0), fork("b", reward=0.0)]
    report = exported(tmp_path, talks, "arrow")
    table = read_samples(report.dir)
    assert table.num_rows == report.counts["samples"] == 3
    samples = [sample for talk in talks for sample in talk.trace.samples()]
    for place, sample in enumerate(samples):
        assert table["token_ids"][place].as_py() == sample.token_ids.tolist()
        assert table["mask"][place].as_py() == sample.mask.tolist()
        found = table["logprobs"][place].values.to_numpy()
        assert found.dtype == np.float32
        assert found.tobytes() == sample.logprobs.tobytes()
    assert table["advantage"].to_pylist() == [0.5, -0.5, -0.5]


def test_a_verifiers_folder_has_the_episodes_where_its_readers_look(tmp_path: Path) -> None:
    report = exported(tmp_path, [linear("a"), linear("b").failed()], "verifiers")
    assert sorted(path.name for path in report.dir.iterdir()) == ["manifest.json", "traces.jsonl"]
    assert [one["ok"] for one in read_episodes(report.dir / "traces.jsonl")] == [True, False]


def test_sft_alone_takes_rollouts_without_tokens(tmp_path: Path) -> None:
    bare = Talk("bare")
    bare.say(PROMPT, assistant("4 \ud83d"), tokens=False)
    low = linear("low", reward=0.2)
    report = exported(tmp_path, [bare, low], "sft", min_reward=0.5)
    (row,) = read_sft(report.dir / "sft")
    assert row["messages"][-1] == {
        "role": "assistant",
        "content": "4 \\ud83d",
        "reasoning_content": None,
        "tool_calls": None,
        "tool_call_id": None,
    }
    assert [(note.trace_id, note.reason) for note in report.notes] == [("low", "reward below 0.5")]


def test_a_folder_is_replaced_only_on_request_and_only_an_export(tmp_path: Path) -> None:
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a"), linear("b", reward=0.0)])))
    run.export("sft", tmp_path / "out")
    with pytest.raises(ConfigError, match="exists; give another folder, or overwrite=True"):
        run.export("sft", tmp_path / "out")
    report = run.export("prime-rl", tmp_path / "out", overwrite=True, env="sums")
    assert (report.dir / "episodes").is_dir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match="is no export"):
        run.export("sft", tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out", "run"]


def test_wrong_options_are_named_before_anything_is_written(tmp_path: Path) -> None:
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a"), linear("b", reward=0.0)], finished=False)))
    out = tmp_path / "out"
    with pytest.raises(RunNotFinished, match="partial=True"):
        run.export("sft", out)
    for options, message in (
        ({"env": "all"}, "env='all' is no environment name"),
        ({"env": " "}, "env=' ' is no environment name"),
        ({"advantage": None}, "prime-rl needs one of grpo, leave_one_out"),
        ({"ranks": 0}, "ranks=0 cannot be"),
        ({"seq_len": 10, "pad_to": 4}, "no multiple of pad_to=4"),
        ({"step": 0}, "steps count from 1"),
        ({"agents": ["x"]}, "no trace has the role 'x'"),
        ({"rank": 2}, "export has no option 'rank'; there are env, "),
    ):
        with pytest.raises(ConfigError, match=message):
            run.export("prime-rl", out, partial=True, **options)
    with pytest.raises(ConfigError, match="there are prime-rl, sft, arrow, verifiers, atif"):
        run.export("csv", out, partial=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a")])))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vfnb\[export\]'"):
        run.export("sft", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_nothing_to_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ExportRefused, match="there is nothing to write"):
        exported(tmp_path, [linear("a").failed()], "sft")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
