"""`vfnb export`, in process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.tokenruns import linear, save

from vfnb.cli.main import MISUSED, main
from vfnb.exchange import read_manifest, read_rollouts

pytest.importorskip("pyarrow", reason="an environment from before the export extra: run make env")


def test_a_run_is_exported_and_the_report_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talks = [linear("a", reward=1.0), linear("b", reward=0.0), linear("c", group="alone")]
    asyncio.run(save(tmp_path / "run", talks))
    words = ["export", str(tmp_path / "run"), "prime-rl", str(tmp_path / "out"), "--env", "sums"]
    assert main([*words, "--ranks", "2", "--step", "3", "--agents", "agent", "--min-reward", "0.5"]) == 0
    out, err = capsys.readouterr()
    assert "2 rollout samples" in out
    assert "left out (rollouts): 1 times: advantage 0" in out
    assert "left out (sft): 1 times: reward below 0.5" in out
    assert err == ""
    assert len(read_rollouts(tmp_path / "out" / "run")[3]) == 2
    assert read_manifest(tmp_path / "out")["options"]["agents"] == ["agent"]
    assert main(words) == MISUSED
    assert "--overwrite" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0


def test_what_is_refused_is_one_message_and_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = linear("hot", reward=0.0)
    hot.say([], hot.trace.main.messages[-1], sampling_sent={"temperature": 2.0})  # type: ignore[union-attr, arg-type]
    asyncio.run(save(tmp_path / "run", [linear("a"), hot]))
    words = ["export", str(tmp_path / "run"), "prime-rl", str(tmp_path / "out")]
    assert main(words) == MISUSED
    assert "trace hot" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert main([*words, "--skip-invalid"]) == 0
    assert "1 records were refused" in capsys.readouterr().err
    for wrong, message in (
        ([*words, "--ranks", "x"], "invalid int value"),
        (words[:3], "required: dir"),
        (["export", str(tmp_path / "none"), "sft", "o"], "none"),
        ([*words[:2], "csv", "o"], "there are prime-rl, sft, arrow, verifiers"),
    ):
        assert main(wrong) == MISUSED
        assert message in capsys.readouterr().err
