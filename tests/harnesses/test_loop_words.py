"""The plain functions of the loops, and the program as one file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from vfnb_harnesses.launch import START, archive
from vfnb_harnesses.loop_program.box import Output
from vfnb_harnesses.loop_program.words import bounded, excerpt, replaced


def test_bounded_keeps_both_ends_and_counts() -> None:
    assert bounded("x" * 100, 100) == "x" * 100
    text = bounded("a" * 500 + "b" * 500, 30)
    assert text == "a" * 20 + "\n[... 970 of 1000 characters left out ...]\n" + "b" * 10
    assert "[... 1070 of 1100 " in bounded("a" * 1000, 30, lost=100)


@pytest.mark.parametrize(
    ("offset", "count", "shown"),
    [
        (1, None, "1\n2\n3\n4\n"),
        (2, 2, "2\n3\n[lines 2 to 3 of 4; read on with offset=4]"),
        (4, 9, "4\n[lines 4 to 4 of 4]"),
        (0, 1, "1\n[lines 1 to 1 of 4; read on with offset=2]"),
        (9, None, "[the file has 4 lines]"),
    ],
)
def test_excerpts_say_where_they_are(offset: int, count: int | None, shown: str) -> None:
    assert excerpt("1\n2\n3\n4\n", offset, count, 100) == shown


def test_an_excerpt_of_one_endless_line_is_bounded() -> None:
    text = excerpt("y" * 5000 + "\nz\n", 1, None, 100)
    assert len(text) < 250
    assert "4901 of 5001 characters left out" in text
    assert text.endswith("[lines 1 to 1 of 2; read on with offset=2]")
    assert excerpt("", 1, None, 100) == "(empty file)"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"old": "", "new": "x"}, "old must be some text"),
        ({"old": "a", "new": "a"}, "new must differ"),
        ({"old": "q", "new": "x"}, "not in f.txt"),
        ({"old": "a", "new": "x"}, "2 times in f.txt"),
    ],
)
def test_edits_that_cannot_be(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        replaced("a b a\r\n", {"path": "f.txt", **values})


def test_edits_leave_line_ends_alone() -> None:
    assert replaced("a b\r\n", {"path": "f", "old": "b", "new": "c"})[0] == "a c\r\n"


def test_output_is_kept_in_bounded_memory() -> None:
    kept = Output(10)
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(b"start" + b"." * 50_000 + b"end")
    kept.drain(reading)
    os.close(reading)
    assert kept.text().startswith("start")
    assert kept.text().endswith("end")
    assert len(kept.head) == 40
    assert 40 <= len(kept.tail) <= 80
    assert kept.lost == 50_008 - len(kept.head) - len(kept.tail)


def test_the_program_runs_from_one_file(tmp_path: Path) -> None:
    (tmp_path / "loop.zip").write_bytes(archive())
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [],
        "mcp": {},
        "local": {"shell": "sh", "timeout": 5},
        "keep": [1, 0],
        "compact_at": 0,
        "max_turns": None,
        "max_output": 100,
        "tool_timeout": 5,
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", START, "loop.zip", "request.json"],
        env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "k"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("the model's endpoint broke off: ")
    assert not (tmp_path / "request.json").exists()
