"""Rows of the token client: what a call costs beside the engine, and the engine under a run."""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.measure import Figures, Metric, Row, Sides
from benchmarks.peer import setup
from benchmarks.processes import ROOT, helper, json_program, python
from benchmarks.program import COMPLETION, SIZES, Program, figures

__all__ = ["ROWS"]

MODEL = ROOT / "vfnb" / "clients" / "engines" / "tiny"


def floor(url: str) -> Figures:
    """Tokens of what is new, the ids as JSON to the server, its answer decoded."""
    from vfnb.clients.engines.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(MODEL)
    completion = tokenizer.encode_template(COMPLETION)
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    program, calls, ids = Program(), [], list[int]()
    reply = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
    while len(ids) < max(SIZES.values()) * 1.02:
        new = program.messages[-1]["content"]
        start = time.process_time()
        ids += tokenizer.encode(new)
        connection.request("POST", "/inference/v1/generate", json.dumps({"token_ids": ids}))
        json.loads(connection.getresponse().read())
        calls.append((len(ids), 1000 * (time.process_time() - start)))
        ids += completion
        program.hear({"choices": [{"message": reply}], "usage": {"prompt_tokens": 0}})
    connection.close()
    return figures(calls, "http_")


@contextmanager
def open_client(peer: bool) -> Iterator[Sides]:
    from vfnb.clients.engines.tokenizer import load_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "completion.json"
        file.write_text(json.dumps(load_tokenizer(MODEL).encode_template(COMPLETION)))
        with helper([*python("net.generate"), file]) as server:
            url = server.ready["url"]

            def side(interpreter: str, module: str) -> Figures:
                return json_program([*python(module, interpreter), url, MODEL])

            sides: Sides = {
                "floor": partial(floor, url),
                "ours": partial(side, sys.executable, "ours.train"),
            }
            if peer:
                sides["peer"] = partial(side, str(setup.PYTHON), "peer.train")
            yield sides


@contextmanager
def open_engine(peer: bool) -> Iterator[Sides]:
    yield {
        "floor": lambda: json_program([*python("ours.engine"), "bare"]),
        "ours": lambda: json_program(python("ours.engine")),
    }


ROWS = [
    Row(
        "train",
        "a call of the token client, 1 k tokens new; floor: tokenise, ids as JSON there and back",
        [
            *(Metric(f"http_{size}_ms", f"history of {size}, over HTTP", "ms") for size in SIZES),
            *(Metric(f"direct_{size}_ms", f"history of {size}, engine in process", "ms") for size in SIZES),
        ],
        open_client,
    ),
    Row(
        "engine",
        "256 rollouts on the embedded engine, 32 at a time; floor: the engine alone",
        [
            Metric("token_ms", "CPU per sampled token", "ms"),
            Metric("rollout_ms", "CPU per rollout", "ms"),
            Metric("rate", "tokens per second", "/s", more_is_better=True),
        ],
        open_engine,
    ),
]
