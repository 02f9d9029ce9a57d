"""Scoring a finished run anew, against calling the same function on traces whose messages are in memory.

python -m benchmarks.ours.rescore FOLDER
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

WORD = re.compile(r"\w+")


def repetition(trace: Any) -> float:
    """Share of word triples in the replies that are new: a cheap reward, one pass over the text."""
    words = WORD.findall(" ".join(message.text for message in trace.messages if message.role == "assistant"))
    triples = list(zip(words, words[1:], words[2:], strict=False))
    return len(set(triples)) / max(1, len(triples))


def similarity(trace: Any) -> float:
    """How much each reply differs from the one before: a reward that compares texts."""
    replies = [message.text for message in trace.messages if message.role == "assistant"]
    pairs = itertools.pairwise(replies)
    ratios = [difflib.SequenceMatcher(None, a.split(), b.split(), autojunk=False).ratio() for a, b in pairs]
    return 1 - sum(ratios) / max(1, len(ratios))


def timed(work: Callable[[], Any]) -> float:
    """CPU seconds of this process, all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def read(folder: str) -> dict[str, float]:
    """CPU seconds of each, pandas already loaded."""
    import pandas

    import vfnb as vf

    assert pandas
    run = vf.load(folder)
    first = run.traces[0].id
    run.rescore([repetition], where=f"trace = '{first}'")  # modules are loaded now
    run.rescore(weights={"style": 0.2}, where=f"trace = '{first}'")
    figures = {"weights_s": timed(lambda: run.rescore(weights={"style": 0.3}))}
    for name, function in (("cheap", repetition), ("text", similarity)):
        figures[f"{name}_s"] = timed(lambda function=function: run.rescore([function]))
    half = len(run.traces) // 10  # as many as are held in memory here: all of them would be a gigabyte
    traces = run.traces[:half]
    for trace in traces:
        assert trace.messages
    for name, function in (("cheap", repetition), ("text", similarity)):
        called = 10 * timed(lambda function=function: [function(trace) for trace in traces])
        figures[f"{name}_memory_s"] = called
        figures[f"{name}_ratio"] = figures[f"{name}_s"] / called
    return figures


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1])))
