"""Read back what an export wrote, and say so when it is not what it should be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from vfnb.errors import TraceError
from vfnb.exchange.arrow import pyarrow
from vfnb.exchange.folder import MANIFEST
from vfnb.exchange.records import task_hash
from vfnb.exchange.rollouts import SAMPLES
from vfnb.exchange.wire import MicroBatch, TrainingSample, decode_batches, decode_samples
from vfnb.utils.plain import decode_json

__all__ = [
    "read_episodes",
    "read_manifest",
    "read_rollouts",
    "read_samples",
    "read_sft",
    "read_training_samples",
]


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of an export."""
    record: dict[str, Any] = msgspec.json.decode((Path(folder) / MANIFEST).read_bytes())
    return record


def read_episodes(path: str | Path) -> list[dict[str, Any]]:
    """The records of an episodes file, `traces.jsonl`.

    Raises:
        TraceError: a line is no episode, or a task's hash is not that of its data.
    """
    found = []
    for number, line in enumerate(Path(path).read_bytes().splitlines(), 1):
        try:
            record: dict[str, Any] = decode_json(line)
        except ValueError as error:
            raise TraceError(f"{path}, line {number}: {error}") from error
        if not record.get("traces"):
            raise TraceError(f"{path}, line {number} is no episode: it has no traces")
        for part in (record, *record["traces"]):
            task = part["task"]
            if task_hash(task["data"]) != task["hash"]:
                raise TraceError(f"{path}, line {number}: the task's hash is not that of its data")
        found.append(record)
    return found


def read_rollouts(folder: str | Path) -> dict[int, list[list[MicroBatch]]]:
    """The micro-batches of a run folder: by step, by rank.

    Raises:
        TraceError: ranks are missing or have different numbers of batches, or lengths contradict each other.
    """
    steps = {}
    for path in sorted((Path(folder) / "rollouts").glob("step_*")):
        files = {int(re.sub(r"\D", "", file.stem)): file for file in path.glob("rank_*.bin")}
        if sorted(files) != list(range(len(files))):
            raise TraceError(f"{path} has ranks {sorted(files)}, expected 0 to {len(files) - 1}")
        ranks = [decode_batches(files[rank].read_bytes()) for rank in range(len(files))]
        if len({len(batches) for batches in ranks}) > 1:
            raise TraceError(f"{path} has {[len(batches) for batches in ranks]} micro-batches by rank")
        for batch in (batch for batches in ranks for batch in batches):
            _check(batch, path)
        steps[int(path.name.removeprefix("step_"))] = ranks
    return steps


def _check(batch: MicroBatch, path: Path) -> None:
    count = len(batch.input_ids)
    lists = (
        batch.loss_mask,
        batch.advantages,
        batch.inference_logprobs,
        batch.position_ids,
        batch.temperatures,
        batch.env_names,
        *(
            stream
            for stream in (batch.rl_weights, batch.ce_weights, batch.mm_token_type_ids)
            if stream is not None
        ),
    )
    if any(len(each) != count for each in lists) or sum(batch.seq_lens) != count:
        raise TraceError(f"{path}: a micro-batch of {count} tokens has lists of other lengths")


def read_training_samples(folder: str | Path) -> list[TrainingSample]:
    """The samples of an export's folder `samples`.

    Raises:
        TraceError: the file is none of samples, or lengths contradict each other.
    """
    path = Path(folder) / SAMPLES
    try:
        samples = decode_samples(path.read_bytes())
    except msgspec.ValidationError as error:
        raise TraceError(f"{path} holds no training samples: {error}") from error
    for at, one in enumerate(samples):
        lists = (one.mask, one.logprobs, one.temperatures, one.advantages, one.rl_weights, one.ce_weights)
        if any(
            each is not None and len(each) != len(one.token_ids) for each in (*lists, one.mm_token_type_ids)
        ):
            raise TraceError(
                f"{path}, sample {at}: {len(one.token_ids)} tokens, but a list of another length"
            )
    return samples


def read_sft(folder: str | Path) -> list[dict[str, Any]]:
    """The rows of an SFT folder, from its Parquet file; what a row does not have is None."""
    rows: list[dict[str, Any]] = pyarrow().parquet.read_table(Path(folder) / "train.parquet").to_pylist()
    return rows


def read_samples(folder: str | Path) -> Any:
    """The samples of an `arrow` export, a `pyarrow.Table`."""
    pa = pyarrow()
    with pa.memory_map(str(Path(folder) / "samples.arrow")) as file:
        return pa.ipc.open_file(file).read_all()
