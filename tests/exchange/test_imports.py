"""Runs of other programs as runs of ours: real files of verifiers and Inspect, trajectories, trials of Harbor."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.graphs import assistant, tool, user
from support.tokenruns import PROMPT, Talk, fork, linear, save

import vfnb as vf
from vfnb.errors import ConfigError, ImportRefused
from vfnb.exchange.imports.zips import Archive

pytest.importorskip("pyarrow", reason="an environment from before the export extra: run make env")

DATA = Path(__file__).parent / "data"
VERIFIERS = DATA / "verifiers-0.4.0"
INSPECT = DATA / "inspect-0.3.285.eval"
LEVELS = ("runs", "episodes", "traces", "branches", "messages", "calls", "tokens", "errors", "judges")
PIXEL = base64.b64encode(b"not really a picture").decode()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VFNB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def whole_lab(run: vf.Run) -> None:
    """Everything that reads a run works on it."""
    for level in LEVELS:
        assert len(run.frame(level).columns) > 5
    for trace in run.traces:
        assert trace.graph().number_of_nodes() == len(trace.nodes)
        assert repr(trace)
    assert str(run).startswith("Run ")
    assert run.summary is not None
    run.samples(advantage=None)


def shapes(run: vf.Run) -> list[tuple[Any, ...]]:
    """What the traces say."""
    return [
        (
            trace.id,
            trace.task.key,
            trace.rollout,
            trace.end_state,
            trace.reward,
            [(node.parent, node.sampled, node.message) for node in trace.dag.nodes],
        )
        for trace in sorted(run.traces, key=lambda trace: trace.id)
    ]


def lines() -> list[str]:
    return (VERIFIERS / "traces.jsonl").read_text().splitlines()


# verifiers


def test_a_run_folder_of_verifiers_opens_with_its_rewards_and_errors() -> None:
    run = vf.load(VERIFIERS)
    whole_lab(run)
    assert run.config["taskset"]["id"] == "sumset"
    assert (run.config["harness"]["id"], run.config["model"]["name"]) == ("null", "m")
    good = [trace for trace in run.traces if trace.ok]
    assert [trace.rollout for trace in good] == [0, 1]
    for trace in good:
        assert {name: (one.value, one.weight) for name, one in trace.rewards.items()} == {
            "correct": (1.0, 1.0),
            "short": (0.5, 0.25),
        }
        assert trace.metrics == {"words": 1.0}
        assert [node.message.role for node in trace.nodes] == ["system", "user", "assistant"]
        (call,) = trace.calls
        assert call.usage is not None
        assert (call.usage.prompt_tokens, call.usage.cached_tokens) == (10, 3)
        assert (call.dialect, call.model, call.finish_reason) == ("chat", "m", "stop")
    bad = [trace for trace in run.traces if not trace.ok]
    assert len(bad) == 2
    for trace in bad:
        assert (trace.end_state, trace.reward) == ("error", None)
        assert (trace.errors[0].type, trace.errors[0].boundary, trace.errors[0].status) == (
            "ProviderError",
            "model",
            400,
        )
        assert trace.calls[0].error is not None
    assert run.imported is not None
    assert run.imported.faults == []
    assert [error.count for error in run.summary.errors] == [2]
    assert any("imported from" in note for note in run.notes)


@pytest.mark.parametrize("format", ["verifiers", "atif"])
def test_what_is_exported_comes_back_token_for_token(tmp_path: Path, format: str) -> None:
    odd = Talk("odd", reward=0.3)
    tools = [{"name": "add", "description": "Sum.", "parameters": {"type": "object"}}]
    asked = assistant(None, ("1", "add", '{"a": 2,"b":2}'), ("2", "look", "no json"), reasoning="Hm.")
    history = odd.say(PROMPT, asked, tools=tools)
    history = [*history, tool("1", "4"), user("And?"), tool("2", "nothing")]
    odd.say(history, assistant("Fine"), tools=tools)
    odd.trace.answer, odd.trace.tags, odd.trace.notes = "Fine", ["good"], ["seen"]
    forced = linear("forced", reward=0.0)
    assert forced.graph.columns is not None
    last = forced.graph.nodes[-1]
    forced.graph.columns.mask[last.end - 3] = False
    forced.graph.columns.logprobs[last.end - 3] = 0.0
    eyes = Talk("eyes")
    picture = vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url=f"data:image/png;base64,{PIXEL}"))
    eyes.say(
        [vf.UserMessage(content=[picture, vf.TextContentPart(text="?")])], assistant("A cat"), tokens=False
    )
    failed = linear("failed").failed()
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a", 3), fork("b"), odd, forced, eyes, failed])))
    report = run.export(format, tmp_path / "out")
    assert report.refused == []
    back = vf.load(report.dir)
    whole_lab(back)
    assert shapes(back) == shapes(run)
    for before in run.traces:
        after = back.traces(before.id)
        assert (after.tags, after.notes, after.answer) == (before.tags, before.notes, before.answer)
        assert [one.cause and one.cause.cause for one in after.branches] == [
            one.cause and one.cause.cause for one in before.branches
        ]
        assert after.errors == before.errors
        for mine, theirs in zip(before.samples(), after.samples(), strict=True):
            assert mine.token_ids.tobytes() == theirs.token_ids.tobytes()
            assert mine.mask.tobytes() == theirs.mask.tobytes()
            assert mine.logprobs.tobytes() == theirs.logprobs.tobytes()
        for mine, theirs in zip(before.calls, after.calls, strict=True):
            assert (mine.usage, mine.sampling_sent, mine.finish_reason) == (
                theirs.usage,
                theirs.sampling_sent,
                theirs.finish_reason,
            )
    assert back.samples()[0].advantage == run.samples()[0].advantage


def edited(tmp_path: Path, *changes: Any) -> Path:
    """The run folder of verifiers with one line changed by each function; None cuts the line."""
    folder = tmp_path / "edited"
    folder.mkdir()
    made = lines()
    for at, change in enumerate(changes):
        if change is None:
            made[at] = made[at][:200]
            continue
        record = json.loads(made[at])
        change(record)
        made[at] = json.dumps(record)
    (folder / "traces.jsonl").write_text("\n".join(made) + "\n")
    return folder


def replied(tmp_path: Path, **node: Any) -> Path:
    """One episode whose reply has these fields."""
    line = next(line for line in lines() if json.loads(line)["ok"])
    record = json.loads(line)
    record["traces"][0]["nodes"][-1] |= node
    other = json.loads(line)
    other["id"] = other["traces"][0]["id"] = "other"
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(record) + "\n" + json.dumps(other) + "\n")
    return path


@pytest.mark.parametrize(
    ("node", "field", "reason"),
    [
        ({"parent": 5}, ".parent", "is 5, expected an earlier node"),
        ({"token_ids": [1, 2], "mask": [True]}, ".mask", "has 1 values for 2 tokens"),
        ({"token_ids": [1, 2], "mask": [False, True]}, ".logprobs", "has 0 values for 1 sampled tokens"),
        ({"token_ids": [1, "x"]}, ".token_ids[1]", "is 'x', expected int32"),
        ({"token_ids": [1, 2], "mask": [0, 1], "logprobs": [-1]}, ".mask[0]", "is 0, expected bool"),
        ({"token_ids": [2**40]}, ".token_ids", "has numbers that are no int32"),
        ({"token_ids": [1], "mask": [True], "logprobs": [float("nan")]}, ".logprobs", "not finite"),
        ({"message": {"role": "user", "content": "x"}}, ".sampled", "is true on a message of role user"),
        ({"message": {"role": "tool", "content": "x"}}, ".message.tool.tool_call_id", "Field required"),
        ({"message": None}, ".message", "is missing, expected an object"),
        ({"sampled": "yes"}, ".sampled", "is a string, expected true or false"),
    ],
)
def test_a_damaged_record_is_named_and_does_not_cost_the_others(
    tmp_path: Path, node: dict[str, Any], field: str, reason: str
) -> None:
    run = vf.load(replied(tmp_path, **node))
    assert [trace.id for trace in run.traces] == ["other"]
    assert run.imported is not None
    (fault,) = run.imported.faults
    assert (fault.file, fault.line) == ("one.jsonl", 1)
    assert fault.field.startswith("traces[0].nodes[2]") and fault.field.endswith(field)
    assert reason in fault.reason
    assert str(fault) in "\n".join(run.notes)
    assert run.imported.frame()["line"].tolist() == [1]


def test_cut_lines_changed_tasks_and_double_ids_are_named(tmp_path: Path) -> None:
    def other_task(record: dict[str, Any]) -> None:
        record["traces"][0]["task"]["data"]["prompt"] = "changed"

    ids = [json.loads(line)["traces"][0]["id"] for line in lines()]

    def double(record: dict[str, Any]) -> None:
        record["traces"][0]["id"] = ids[3]

    folder = edited(tmp_path, None, other_task, double)
    run = vf.load(folder)
    assert run.imported is not None
    faults = {fault.line: fault for fault in run.imported.faults}
    assert "is no JSON" in faults[1].reason
    assert (faults[2].field, "not that of the data" in faults[2].reason) == ("traces[0].task.hash", True)
    assert faults[4].field == "traces[0].id"
    assert len(run.traces) == 1


def test_odd_but_legal_records_open(tmp_path: Path) -> None:
    records = [json.loads(line) for line in lines()]
    bare = next(record["traces"][0] for record in records if record["ok"])
    empty = {
        "id": "empty",
        "task": records[0]["task"],
        "traces": [],
        "errors": [{"type": "EnvError", "message": "x"}],
    }
    broken_off = json.loads(json.dumps(bare)) | {"id": "off", "ok": False, "is_completed": False}
    silent = json.loads(json.dumps(bare)) | {"id": "silent", "calls": []}
    judged = json.loads(json.dumps(bare)) | {"id": "judged"}
    judged["extra_usage"] = [{"prompt_tokens": 5, "completion_tokens": 1}]
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in (bare, empty, broken_off, silent, judged)) + "\n\n")
    run = vf.load(path)
    whole_lab(run)
    assert run.imported is not None
    assert run.imported.faults == []
    ends = {trace.id: (trace.end_state, trace.reward) for trace in run.traces}
    assert ends == {
        bare["id"]: ("completed", 1.125),
        "empty": ("error", None),
        "off": ("cancelled", None),
        "silent": ("completed", 1.125),
        "judged": ("completed", 1.125),
    }
    assert run.traces("silent").num_turns == 1
    assert run.traces("judged").judge_usage.prompt_tokens == 5


# Once for each content


def test_the_same_files_are_converted_once_and_kept(tmp_path: Path, cache: Path) -> None:
    run = vf.load(VERIFIERS)
    assert run.dir.is_relative_to(cache / "imported")
    assert run.name == "verifiers-0.4.0"
    run.traces[0].tag("mine")
    again = vf.load(VERIFIERS)
    assert again.dir == run.dir
    assert again.traces[0].tags == ["mine"]
    copy = tmp_path / "elsewhere"
    shutil.copytree(VERIFIERS, copy)
    with (copy / "traces.jsonl").open("a") as file:
        file.write("\n")
    assert vf.load(copy).dir != run.dir
    mine = vf.load(VERIFIERS, into=tmp_path / "mine")
    assert mine.dir == tmp_path / "mine"
    assert vf.load(VERIFIERS, into=tmp_path / "mine").dir == mine.dir
    with pytest.raises(ConfigError, match="is no import of these files"):
        vf.load(INSPECT, into=tmp_path / "mine")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.tex").write_text("precious")
    with pytest.raises(ConfigError, match="is no import of these files"):
        vf.load(VERIFIERS, into=tmp_path / "notes")
    assert vf.load(mine.dir).imported is not None
    assert not list(cache.rglob("*.tmp"))


def test_what_cannot_be_opened_says_what_can(tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match=r"does not exist; .*give a run of vfnb"):
        vf.load(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImportRefused, match="has nothing that can be imported"):
        vf.load(tmp_path / "empty")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(ImportRefused, match="none of the files that can be imported"):
        vf.load(tmp_path / "a.txt")
    (tmp_path / "bad.jsonl").write_text("{\n[]\n")
    with pytest.raises(
        ImportRefused, match=r"no record that can be read \(2 are damaged, the first: bad\.jsonl, line 1"
    ):
        vf.load(tmp_path / "bad.jsonl")
    (tmp_path / "bad.eval").write_text("no zip")
    with pytest.raises(ImportRefused, match="no whole zip archive"):
        vf.load(tmp_path / "bad.eval")
    steps = tmp_path / "prime" / "rollouts" / "step_1" / "train" / "all"
    steps.mkdir(parents=True)
    (steps / "traces.jsonl").write_text("x")
    with pytest.raises(ImportRefused, match=r"there is rollouts/step_1/train/all/traces\.jsonl"):
        vf.load(tmp_path / "prime")
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "results.jsonl").write_text("{}")
    with pytest.raises(ImportRefused, match="says which tasks are valid"):
        vf.load(tmp_path / "checks")
    report = vf.load(asyncio.run(save(tmp_path / "run", [linear("a")]))).export("sft", tmp_path / "sft")
    with pytest.raises(ImportRefused, match="has no whole traces"):
        vf.load(report.dir)


# Inspect


def as_json(path: Path) -> Path:
    """The log in Inspect's other form."""
    archive = Archive(INSPECT)
    record = json.loads(archive.read("header.json"))
    names = [name for name in archive.names if name.startswith("samples/")]
    record["samples"] = [json.loads(archive.read(name)) for name in names]
    path.write_text(json.dumps(record))
    return path


def test_inspect_logs_open_in_both_forms(tmp_path: Path) -> None:
    run = vf.load(INSPECT)
    whole_lab(run)
    assert run.config["taskset"]["id"] == "sums"
    assert run.config["rollouts"] == 2
    by_task = {(trace.task.key, trace.rollout): trace for trace in run.traces}
    assert sorted(by_task) == [(task, epoch) for task in ("bad", "cat", "one") for epoch in (0, 1)]
    one = by_task["one", 0]
    assert [(node.message.role, node.sampled) for node in one.nodes] == [
        ("system", False),
        ("user", False),
        ("assistant", True),
        ("tool", False),
        ("assistant", True),
    ]
    assert one.nodes[2].message.tool_calls[0].parsed == {"a": 2, "b": 3}  # type: ignore[union-attr]
    assert one.nodes[4].message.reasoning_content == "Adding."  # type: ignore[union-attr]
    assert {name: (each.value, each.weight) for name, each in one.rewards.items()} == {
        "includes": (1.0, 1.0),
        "parts.a": (1.0, 0.0),
        "parts.b": (0.5, 0.0),
    }
    assert one.reward == 1.0
    assert [call.judge for call in one.judge_calls] == ["model_graded_fact"]
    assert one.task.data["target"] == "5"
    assert set(one.timing) == {"agent", "scoring"}
    assert one.dag.tool_list(one.calls[0].tools)[0].name == "add"
    content = by_task["cat", 0].nodes[1].message.content
    assert isinstance(content, list)
    assert content[1].image_url.url.startswith("data:image/png;base64,iVBOR")  # type: ignore[union-attr]
    bad = by_task["bad", 1]
    assert (bad.end_state, bad.reward, bad.errors[0].type) == ("error", None, "ValueError")
    assert [error.count for error in run.summary.errors] == [2]
    other = vf.load(as_json(tmp_path / "log.json"))
    assert shapes(other) == shapes(run)
    assert other.dir != run.dir


def test_a_damaged_member_of_a_log_is_named_and_the_others_open(tmp_path: Path) -> None:
    log = tmp_path / "cut.eval"
    log.write_bytes(INSPECT.read_bytes())
    with zipfile.ZipFile(log) as opened:
        info = opened.getinfo("samples/one_epoch_1.json")
    raw = bytearray(log.read_bytes())
    raw[info.header_offset + 200] ^= 0xFF
    log.write_bytes(raw)
    run = vf.load(log)
    assert len(run.traces) == 5
    assert run.imported is not None
    (fault,) = run.imported.faults
    assert fault.file == "cut.eval/samples/one_epoch_1.json"
    log.write_bytes(raw[:-40])
    with pytest.raises(ImportRefused, match="no whole zip archive"):
        vf.load(log)


def test_logs_without_events_and_with_limits_open(tmp_path: Path) -> None:
    record = json.loads(as_json(tmp_path / "log.json").read_text())
    samples = {(sample["id"], sample["epoch"]): sample for sample in record["samples"]}
    one, cat = samples["one", 1], samples["cat", 1]
    one["events"], one["events_data"] = [], None
    cat["limit"] = {"type": "message", "limit": 3}
    cat["invalidation"] = {"reason": "leaked"}
    samples["cat", 2]["messages"][-1]["role"] = "robot"
    samples["bad", 1]["scores"] = {"includes": {"value": "I"}}
    record["status"] = "cancelled"
    record["samples"].remove(samples["bad", 2])
    (tmp_path / "log.json").write_text(json.dumps(record))
    run = vf.load(tmp_path / "log.json")
    whole_lab(run)
    by_task = {(trace.task.key, trace.rollout): trace for trace in run.traces}
    assert by_task["one", 0].num_turns == 2
    assert [node.sampled for node in by_task["one", 0].nodes] == [False, False, True, False, True]
    assert (by_task["cat", 0].stop_condition, by_task["cat", 0].dropped) == ("max_turns", "leaked")
    assert by_task["bad", 0].reward is None
    assert run.imported is not None
    assert any("status is 'cancelled'" in what and count == 1 for what, count in run.imported.lost.items())


def test_a_damaged_header_of_a_log_does_not_cost_the_samples(tmp_path: Path) -> None:
    record = json.loads(as_json(tmp_path / "log.json").read_text())
    record["eval"]["dataset"]["sample_ids"] = 0.5
    (tmp_path / "log.json").write_text(json.dumps(record))
    run = vf.load(tmp_path / "log.json")
    assert len(run.traces) == 6
    assert run.imported is not None
    assert [fault.field for fault in run.imported.faults] == ["eval.dataset.sample_ids"]
    (tmp_path / "log.json").write_text(json.dumps(record | {"samples": 0.5}))
    with pytest.raises(ImportRefused, match=r"2 are damaged"):
        vf.load(tmp_path / "log.json")


# ATIF and Harbor


def document(**fields: Any) -> dict[str, Any]:
    steps = [
        {"source": "user", "message": "List the files."},
        {
            "source": "agent",
            "message": "",
            "reasoning_content": "ls it is.",
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 20, "completion_tokens": 5, "cached_tokens": 4, "cost_usd": 0.01},
            "timestamp": "2026-05-01T10:00:00Z",
        },
        {"source": "agent", "message": "One file.", "observation": {"results": [{"content": "$ "}]}},
    ]
    record: dict[str, Any] = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s1",
        "agent": {"name": "shell", "version": "1", "model_name": "m", "tool_definitions": [_bash()]},
        "steps": [{"step_id": at, **step} for at, step in enumerate(steps, 1)],
    }
    return record | fields


def _bash() -> dict[str, Any]:
    return {"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": {}}}


def written(path: Path, record: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
    return path


def test_a_foreign_trajectory_opens(tmp_path: Path) -> None:
    run = vf.load(written(tmp_path / "t.json", document()))
    whole_lab(run)
    (trace,) = run.traces
    assert (trace.id, trace.end_state, trace.reward) == ("s1", "completed", None)
    assert [(node.message.role, node.message.text, node.sampled) for node in trace.nodes] == [
        ("user", "List the files.", False),
        ("assistant", "", True),
        ("tool", "a.txt", False),
        ("assistant", "One file.", True),
        ("user", "$ ", False),
    ]
    first, second = trace.calls
    assert first.usage == vf.Usage(prompt_tokens=20, completion_tokens=5, cached_tokens=4, cost=0.01)
    assert (first.model, second.model, first.end) == ("m", "m", 1777629600.0)
    assert trace.dag.tool_list(first.tools)[0].name == "bash"
    assert trace.num_turns == 2


def test_parts_of_a_trajectory_are_branches_of_its_trace(tmp_path: Path) -> None:
    sub = document(trajectory_id="sub", session_id=None)
    sub["steps"][0]["message"] = "Count them."
    main = document(continued_trajectory_ref="more/next.json", subagent_trajectories=[sub])
    more = document()
    for step in more["steps"]:
        step["is_copied_context"] = True
    more["steps"].append({"step_id": 4, "source": "agent", "message": "Done."})
    written(tmp_path / "job" / "first.json", main)
    written(tmp_path / "job" / "more" / "next.json", more)
    written(tmp_path / "job" / "package.json", {"name": "x"})
    run = vf.load(tmp_path / "job")
    whole_lab(run)
    (trace,) = run.traces
    assert trace.num_turns == 5
    assert [branch.messages[0].text for branch in trace.branches] == ["List the files.", "Count them."]
    assert trace.branches[0].messages[-1].text == "Done."
    assert trace.branches[1].cause is not None
    assert trace.branches[1].cause.cause == "subagent"


def test_images_are_read_only_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "job"
    (folder / "media").mkdir(parents=True)
    (folder / "media" / "a.png").write_bytes(b"mine")
    places = ["media/a.png", "../secret.png", str(tmp_path / "secret.png"), "https://x.test/b.png"]
    parts = [{"type": "image", "source": {"media_type": "image/png", "path": place}} for place in places]
    record = document()
    record["steps"][0]["message"] = [{"type": "text", "text": "Look:"}, *parts]
    written(folder / "t.json", record)
    run = vf.load(folder)
    content = run.traces[0].nodes[0].message.content
    assert isinstance(content, list)
    urls = [part.image_url.url for part in content[1:]]  # type: ignore[union-attr]
    assert urls == [f"data:image/png;base64,{base64.b64encode(b'mine').decode()}", *places[1:]]


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"source": "robot"}, "steps[1].source", "expected system, user or agent"),
        ({"timestamp": "noon"}, "steps[1].timestamp", "expected an ISO 8601 time"),
        ({"tool_calls": [{"tool_call_id": "c1"}]}, "steps[1].tool_calls[0].function_name", "is missing"),
        ({"metrics": {"prompt_tokens": "many"}}, "steps[1].metrics.prompt_tokens", "is a string"),
        ({"message": 5}, "steps[1].message", "neither a string nor a list"),
        (
            {"metrics": {"prompt_token_ids": [1], "completion_token_ids": [2, 3], "logprobs": [-1, "x"]}},
            "steps[1].metrics.logprobs[1]",
            "expected float32",
        ),
    ],
)
def test_a_damaged_trajectory_is_named(
    tmp_path: Path, change: dict[str, Any], field: str, reason: str
) -> None:
    record = document()
    record["steps"][1] |= change
    written(tmp_path / "job" / "bad.json", record)
    written(tmp_path / "job" / "good.json", document(session_id="good"))
    run = vf.load(tmp_path / "job")
    assert [trace.id for trace in run.traces] == ["good"]
    assert run.imported is not None
    (fault,) = run.imported.faults
    assert (fault.file, fault.field) == ("bad.json", field)
    assert reason in fault.reason


def trial(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"id-{name}",
        "task_name": "org/task",
        "trial_name": name,
        "task_checksum": "abc",
        "source": "hello",
        "agent_info": {"name": "shell", "version": "1", "model_info": {"name": "m"}},
        "verifier_result": {"rewards": {"reward": 1.0, "style": 0.5}},
        "started_at": "2026-05-01T10:00:00Z",
        "finished_at": "2026-05-01T10:01:00Z",
        "agent_execution": {"started_at": "2026-05-01T10:00:10Z", "finished_at": "2026-05-01T10:00:40Z"},
        **fields,
    }


def broken(kind: str) -> dict[str, Any]:
    return {
        "exception_type": kind,
        "exception_message": "x",
        "exception_traceback": "tb",
        "occurred_at": "2026-05-01T10:00:40Z",
    }


def test_a_job_of_harbor_opens_with_rewards_errors_and_messages(tmp_path: Path) -> None:
    job = tmp_path / "job"
    written(job / "result.json", {"id": "j", "n_total_trials": 5, "stats": {}})
    trials = [
        trial("fine"),
        trial("slow", exception_info=broken("AgentTimeoutError")),
        trial("dead", verifier_result=None, exception_info=broken("RewardFileNotFoundError")),
        trial("only", verifier_result={"rewards": {"score": 0.25}}),
        trial(
            "steps", verifier_result=None, step_results=[{"step_name": "a", "exception_info": broken("X")}]
        ),
        trial("bad", started_at="x", agent_execution={"started_at": "noon"}),
    ]
    for record in trials:
        written(job / record["trial_name"] / "result.json", record)
    written(job / "fine" / "agent" / "trajectory.json", document())
    written(job / "steps" / "steps" / "a" / "agent" / "trajectory.json", document())
    run = vf.load(job)
    whole_lab(run)
    found = {trace.info["trial"]: trace for trace in run.traces}
    ends = {name: (one.end_state, one.stop_condition, one.ok, one.reward) for name, one in found.items()}
    assert ends == {
        "fine": ("completed", None, True, 1.0),
        "slow": ("stopped", "timeout", True, 1.0),
        "dead": ("error", None, False, None),
        "only": ("completed", None, True, 0.25),
        "steps": ("error", None, False, None),
    }
    assert found["fine"].metrics == {"style": 0.5}
    assert found["fine"].num_turns == found["steps"].num_turns == 2
    assert found["fine"].timing["agent"].seconds == 30.0
    assert {trace.group_id for trace in run.traces} == {"org/task"}
    assert sorted(trace.rollout for trace in run.traces) == [0, 1, 2, 3, 4]
    assert run.config["harness"]["id"] == "shell"
    assert run.imported is not None
    (fault,) = run.imported.faults
    assert (fault.file, fault.field) == ("bad/result.json", "agent_execution.started_at")
    assert run.imported.lost == {"messages of trials whose agent wrote no trajectory.json": 3}
    assert len(vf.load(job / "fine").traces) == 1
