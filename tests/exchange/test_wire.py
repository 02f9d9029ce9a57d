"""Samples and micro-batches with weights, expert routing and pictures; odd options; which folder is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.graphs import assistant, user
from support.tokenruns import PROMPT, Talk, fork, linear, save

import vfnb as vf
from vfnb.errors import ConfigError, ExportRefused
from vfnb.exchange import (
    ExportOptions,
    Images,
    MicroBatch,
    Piece,
    TrainingSample,
    export,
    pack,
    read_rollouts,
    read_training_samples,
)
from vfnb.trace import TokenTurn
from vfnb.types import AssistantMessage, Message

pytest.importorskip("pyarrow", reason="an environment from before the export extra: run make env")


class Routed(Talk):
    """Calls with the experts of all tokens but the last, as engines give them."""

    experts = 16

    def _turn(self, history: Sequence[Message], reply: AssistantMessage) -> TokenTurn:
        turn = super()._turn(history, reply)
        count = len(turn.prompt_ids) + len(turn.completion_ids) - 1
        rng = np.random.default_rng(0)
        turn.routed_experts = rng.integers(0, self.experts, (4000, 2, 3)).astype(np.uint16)[:count]
        return turn


def routed(id: str, experts: int = 16, **fields: Any) -> Routed:
    talk = Routed(id, **fields)
    talk.experts = experts
    history = talk.say(PROMPT, assistant(f"It is {id}."))
    talk.say([*history, user("Sure?")], assistant("Yes."))
    return talk


def exported(tmp_path: Path, talks: list[Talk], **options: Any) -> Path:
    traces = [(talk.trace.id, talk.trace) for talk in talks]
    chosen = ExportOptions(env="sums", **({"seq_len": 2048} | options))
    return export(traces, "prime-rl", tmp_path / "out", chosen).dir


def batches(folder: Path) -> list[MicroBatch]:
    return [batch for rank in read_rollouts(folder / "run")[1] for batch in rank]


def test_the_samples_file_is_the_trainers_array() -> None:
    from vfnb.exchange.wire import encode_samples

    plain = TrainingSample([5, 6], [False, True], [0.0, -0.5], [0.7, 0.7], "sums", advantages=[1.0, 1.0])
    (row,) = msgspec.msgpack.decode(encode_samples([plain]))
    assert row == [[5, 6], [False, True], [0.0, -0.5], [0.7, 0.7], "sums", *[None] * 7, [1.0, 1.0]]
    bare = TrainingSample([5], [True], [-0.5], [0.7], "sums")
    assert msgspec.msgpack.decode(encode_samples([bare])) == [[[5], [True], [-0.5], [0.7], "sums"]]


def test_samples_are_whole_and_bit_exact(tmp_path: Path) -> None:
    talks: list[Talk] = [linear("a", 6, reward=1.0), fork("b", reward=0.0)]
    folder = exported(tmp_path, talks, seq_len=256)
    wanted = [sample for talk in talks for sample in talk.trace.samples()]
    found = read_training_samples(folder / "samples")
    assert len(found) == len(wanted) == 3
    for mine, theirs in zip(wanted, found, strict=True):
        assert theirs.token_ids == mine.token_ids.tolist()
        assert theirs.mask == mine.mask.tolist()
        assert np.array(theirs.logprobs, np.float32).tobytes() == mine.logprobs.tobytes()
        assert set(theirs.temperatures) == {1.0}
        assert theirs.rl_weights is theirs.routed_experts is theirs.mm_kwargs is None


def test_experts_go_along_row_by_row(tmp_path: Path) -> None:
    talks: list[Talk] = [routed("a", reward=1.0), routed("b", 300, reward=0.0), linear("c", reward=0.25)]
    folder = exported(tmp_path, talks, pad_to=8)
    first, second, third = read_training_samples(folder / "samples")
    assert third.routed_experts is None
    for sample, talk in ((first, talks[0]), (second, talks[1])):
        rows = talk.trace.branches[0].routed_experts
        assert sample.routed_experts is not None
        assert sample.routed_experts.dtype == "uint16"  # one of them has more than 256
        assert np.array_equal(sample.routed_experts.rows(), rows)
        assert rows.shape == (len(sample.token_ids), 2, 3)
    packed = batches(folder)
    assert len(packed) == 2  # with and without routing apart
    (batch,) = [one for one in packed if one.routed_experts is not None]
    assert batch.routed_experts is not None
    both = batch.routed_experts.rows()
    assert len(both) == len(batch.input_ids)
    longest = max((first, second), key=lambda one: len(one.token_ids))
    assert np.array_equal(both[: len(longest.token_ids)], longest.routed_experts.rows())  # type: ignore[union-attr]
    pad = len(batch.input_ids) - len(first.token_ids) - len(second.token_ids)
    assert not both[len(both) - pad :].any()


def test_few_experts_are_bytes_and_partial_routing_is_left_out_with_a_warning(tmp_path: Path) -> None:
    partial = routed("b", reward=0.0)
    assert partial.graph.columns is not None
    first = min(partial.graph.columns.experts)
    partial.graph.columns.experts.pop(first)
    folder = exported(tmp_path, [routed("a", reward=1.0), partial])
    one, two = read_training_samples(folder / "samples")
    assert one.routed_experts is not None
    assert one.routed_experts.dtype == "uint8"
    assert two.routed_experts is None
    traces = [(talk.trace.id, talk.trace) for talk in (routed("a", reward=1.0), partial)]
    report = export(traces, "prime-rl", tmp_path / "again", ExportOptions(env="sums"))
    (note,) = [note for note in report.notes if note.part == "rollouts"]
    assert (note.trace_id, note.action) == ("b", "warning")
    assert [note.trace_id for note in report.notes if note.part == "episodes"] == ["a", "b"]
    assert note.reason.startswith("its expert routing is not carried: messages [0, 1, ")


# Weights


def test_weights_per_rollout_and_by_a_function(tmp_path: Path) -> None:
    talks: list[Talk] = [fork("a", reward=1.0), linear("b", reward=0.0)]
    folder = exported(tmp_path, talks, weights="rollout")
    samples = read_training_samples(folder / "samples")
    assert [sorted(set(one.rl_weights or ())) for one in samples] == [[0.0, 0.5], [0.0, 0.5], [0.0, 1.0]]
    assert sum(sum(one.rl_weights or ()) > 0 for one in samples) == 3
    (batch,) = batches(folder)
    assert batch.rl_weights is not None
    assert [weight > 0 for weight in batch.rl_weights] == batch.loss_mask
    assert batch.ce_weights is None

    def only_b(sample: vf.Sample) -> dict[str, Any]:
        return {"ce": sample.mask * 0.5} if sample.trace_id == "b" else {}

    traces = [(talk.trace.id, talk.trace) for talk in talks]
    report = export(traces, "prime-rl", tmp_path / "ce", ExportOptions(env="sums", weights=only_b, pad_to=64))
    (batch,) = batches(report.dir)
    assert batch.rl_weights is None
    assert batch.ce_weights is not None
    assert len(batch.ce_weights) == len(batch.input_ids)
    trained = sum(int(sample.mask.sum()) for sample in talks[1].trace.samples())
    assert sum(batch.ce_weights) == 0.5 * trained
    assert "only_b" in (report.dir / "manifest.json").read_text()


def some(length: int, at: int = 1, **fields: Any) -> Piece:
    mask = [False] + [True] * (length - 1)
    return replace(Piece([at + 5] * length, mask, [-0.5] * length, float(at), 0.7, "sums"), **fields)


def test_streams_of_one_sample_appear_in_its_batch_with_what_the_others_count() -> None:
    pieces = [some(3, rl=[0.0, 0.5, 0.5]), some(2, 2, ce=[1.0, 0.0]), some(2, 3)]
    ((batch,),) = pack(pieces, seq_len=8, pad_to=8)
    assert batch.rl_weights == [0.0, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert batch.ce_weights == [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    dealt = pack(pieces, seq_len=3, ranks=2)
    dummies = [one for rank in dealt for one in rank if not any(one.loss_mask)]
    assert len(dummies) == 1
    assert dummies[0].rl_weights is dummies[0].ce_weights is None
    assert set(dummies[0].advantages) == {0.0}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda sample: [1.0], "gave list, expected a mapping of rl, ce"),
        (lambda sample: {"ref_kl": sample.mask}, "gave a stream 'ref_kl'; a run has rl, ce"),
        (lambda sample: {"rl": [1.0]}, r"gave for 'rl' an array of shape \(1,\), expected "),
        (lambda sample: {"ce": sample.mask * np.nan}, "finite numbers"),
    ],
)
def test_wrong_weights_are_named(tmp_path: Path, weights: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        exported(tmp_path, [linear("a", reward=1.0), linear("b", reward=0.0)], weights=weights)
    assert list(tmp_path.iterdir()) == []


# Pictures


def eyes(id: str, reward: float) -> Talk:
    talk = Talk(id, reward=reward)
    url = vf.ImageUrlSource(url="data:image/png;base64,AAAA")
    seen = vf.UserMessage(content=[vf.ImageUrlContentPart(image_url=url)])
    talk.say([seen], assistant(f"A cat, says {id}."))
    return talk


def pictures(sample: vf.Sample) -> Images:
    """Two pictures at the start: 4 and 2 tokens, each of 4 patches."""
    kinds = np.zeros(len(sample), np.int64)
    kinds[2:6] = kinds[8:10] = 1
    grid = np.array([[1, 4, 4], [1, 4, 2]], np.int64)
    return Images(
        kinds, {"pixel_values": np.arange(24 * 3, dtype=np.float32).reshape(24, 3), "image_grid_thw": grid}
    )


def test_pictures_go_along_and_have_a_batch_of_their_own(tmp_path: Path) -> None:
    talks = [eyes("a", 1.0), eyes("b", 0.0), linear("c", reward=0.25), linear("d", reward=0.75)]
    traces = [(talk.trace.id, talk.trace) for talk in talks]
    options = ExportOptions(env="cats", seq_len=2048, images=pictures, ranks=2)
    report = export(traces, "prime-rl", tmp_path / "out", options, skip_invalid=True)  # SFT cannot have them
    assert {note.part for note in report.refused} == {"sft"}
    samples = read_training_samples(report.dir / "samples")
    assert [one.mm_kwargs is not None for one in samples] == [True, True, False, False]
    first = samples[0]
    assert first.mm_kwargs is not None
    assert first.mm_kwargs["pixel_values"].array()[-1].tolist() == [69.0, 70.0, 71.0]
    assert first.mm_kwargs["image_grid_thw"].shape == [2, 3]
    assert first.mm_token_type_ids is not None
    assert first.mm_token_type_ids[:10] == [0, 0, 1, 1, 1, 1, 0, 0, 1, 1]
    ranks = read_rollouts(report.dir / "run")[1]
    kinds = [[batch.mm_kwargs is not None for batch in rank] for rank in ranks]
    assert kinds == [[True, False], [True, False]]
    assert all(len(rank[0].sequence_lengths) == 1 for rank in ranks)


def test_no_picture_is_cut(tmp_path: Path) -> None:
    kinds = [0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0]
    grid = np.array([[1, 4, 4], [1, 4, 2]])
    images = Images(np.array(kinds), {"pixel_values": np.zeros((24, 3)), "image_grid_thw": grid})
    whole = some(12, images=images)
    for length, tokens, patches in ((12, 12, 24), (11, 11, 24), (9, 8, 16), (7, 7, 16), (5, 2, 0)):
        cut = whole.cut(length)
        assert len(cut) == len(cut.mask) == tokens
        assert cut.images is not None
        assert len(cut.images.type_ids) == tokens
        assert len(cut.images.tensors.get("pixel_values", ())) == patches
    lone = some(12, images=Images(np.array(kinds), {"pixel_values": np.zeros((24, 3))}))
    with pytest.raises(ConfigError, match="image_grid_thw has no rows"):
        lone.cut(7)


def test_wrong_pictures_are_named(tmp_path: Path) -> None:
    traces = [(talk.trace.id, talk.trace) for talk in (eyes("a", 1.0), eyes("b", 0.0))]
    for given in (None, Images(None, {}), Images([0], {}), Images(np.zeros(3, np.float32), {})):
        options = ExportOptions(env="cats", images=lambda sample, given=given: given)  # type: ignore[misc]
        with pytest.raises(ConfigError, match=r"expected vfnb\.exchange\.Images with"):
            export(traces, "prime-rl", tmp_path / "out", options, skip_invalid=True)
    assert list(tmp_path.iterdir()) == []


# Options and folders


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seq_len": "long"}, "seq_len='long' cannot be; give a whole number from 1"),
        ({"seq_len": 4096.0}, r"seq_len=4096\.0 cannot be"),
        ({"ranks": True}, "ranks=True cannot be"),
        ({"pad_to": None}, "pad_to=None cannot be"),
        ({"step": "1"}, "step='1' cannot be"),
        ({"env": 7}, "env=7 is no name"),
        ({"agents": "agent"}, "agents='agent' is no list of role names"),
        ({"agents": [1]}, r"agents=\[1\] is no list"),
        ({"temperature": 0}, "temperature=0 cannot be; give a finite number above 0"),
        ({"temperature": float("nan")}, "temperature=nan cannot be"),
        ({"temperature": "hot"}, "temperature='hot' cannot be"),
        ({"min_reward": "half"}, "min_reward='half' cannot be; give a finite number"),
        ({"advantage": "ppo"}, "advantage='ppo' is unknown"),
        ({"advantage": ["grpo"]}, r"advantage=\['grpo'\] is unknown"),
        ({"weights": "token"}, "weights='token' is unknown"),
        ({"images": "all"}, "images='all' is no function"),
    ],
)
def test_odd_options_are_errors_of_configuration(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    for format in ("prime-rl", "sft", "atif"):
        with pytest.raises(ConfigError, match=message):
            export([], format, tmp_path / "out", ExportOptions(**({"env": "sums"} | options)))
    assert list(tmp_path.iterdir()) == []


def test_odd_formats_and_folders_are_errors_of_configuration(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for format, dir, message in (
        (["sft"], "out", "no export format"),
        (None, "out", "no export format None; there are prime-rl"),
        ("sft", None, "dir=None is no path"),
        ("sft", "", "dir='' is no path"),
        ("sft", tmp_path / "file", "file exists; give another folder"),
        ("sft", tmp_path / "file" / "out", "cannot be made"),
    ):
        with pytest.raises(ConfigError, match=message):
            export([], format, dir, ExportOptions())  # type: ignore[arg-type]


def test_behind_a_link_its_target_is_written(tmp_path: Path) -> None:
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a"), linear("b", reward=0.0)])))
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk")
    report = run.export("sft", link)
    assert link.is_symlink()
    assert report.dir == (tmp_path / "disk").resolve()
    assert (tmp_path / "disk" / "manifest.json").is_file()
    run.export("atif", link, overwrite=True)
    assert link.is_symlink()
    assert sorted(path.name for path in (tmp_path / "disk").iterdir()) == ["a", "b", "manifest.json"]


def test_no_foreign_file_is_deleted(tmp_path: Path) -> None:
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a"), linear("b", reward=0.0)])))
    out = run.export("prime-rl", tmp_path / "out", env="sums").dir
    weights = out / "run" / "checkpoints" / "step_1"
    weights.mkdir(parents=True)
    (weights / "model.safetensors").write_text("precious")
    with pytest.raises(ConfigError, match=r"files that are not the export's .*model\.safetensors"):
        run.export("prime-rl", out, env="sums", overwrite=True)
    assert (weights / "model.safetensors").read_text() == "precious"
    (weights / "model.safetensors").rename(tmp_path / "kept")
    run.export("prime-rl", out, env="sums", overwrite=True, step=2)
    assert [path.name for path in (out / "run" / "rollouts").iterdir()] == ["step_2"]
    (out / "manifest.json").write_text('{"format": "sft"}')
    with pytest.raises(ConfigError, match="does not say which files are the export's"):
        run.export("prime-rl", out, env="sums", overwrite=True)


def test_a_failed_function_leaves_nothing(tmp_path: Path) -> None:
    def fails(sample: vf.Sample) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        exported(tmp_path, [linear("a", reward=1.0), linear("b", reward=0.0)], weights=fails)
    assert list(tmp_path.iterdir()) == []


def test_live_tasks_have_the_keys_and_hashes_of_the_episodes(tmp_path: Path) -> None:
    import json
    import tomllib

    from vfnb.exchange import read_episodes

    talks: list[Talk] = [linear("a", reward=1.0), linear("b", reward=0.0)]
    traces = [(talk.trace.id, talk.trace) for talk in talks]
    out = export(traces, "prime-rl", tmp_path / "out", ExportOptions(env='my "env"', ranks=2)).dir
    live = out / "live"
    (source,) = tomllib.loads((live / "prime_rl.toml").read_text())["orchestrator"]["train"]["source"]
    assert source["name"] == 'my "env"'
    package = live / source["env"]["taskset"]["id"].replace("-", "_")
    rows = [json.loads(line) for line in (package / "tasks.jsonl").read_text().splitlines()]
    tasks = [one["task"] for one in read_episodes(out / "episodes" / "traces.jsonl")]
    assert [{"key": row["key"], "hash": row["hash"], "data": row["data"]} for row in rows] == [
        {key: tasks[0][key] for key in ("key", "hash", "data")}
    ]
    compile((package / "__init__.py").read_text(), "package", "exec")
    assert tomllib.loads((live / "trainer.toml").read_text())["rollout_transport"]["type"] == "filesystem"


def test_nothing_to_train_is_refused_whatever_may_be_skipped(tmp_path: Path) -> None:
    traces = [(talk.trace.id, talk.trace) for talk in (linear("a"), linear("b"))]
    with pytest.raises(ExportRefused, match="there is no micro-batch"):
        export(traces, "prime-rl", tmp_path / "out", ExportOptions(env="sums"), skip_invalid=True)
    assert list(tmp_path.iterdir()) == []
