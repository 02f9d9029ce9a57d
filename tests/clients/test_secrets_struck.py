"""A server that repeats what it was sent does not carry a secret into errors, traces or files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.server import ThreadServer

import vfnb as vf

KEY, PASSWORD, QUERY, HEADER = "sk-key/with+odd=", "pass-word-1", "query=secret", "header secret"


STREAMS = {
    "chat": lambda said: {"error": {"message": said}},
    "messages": lambda said: {"type": "error", "error": {"type": "api_error", "message": said}},
    "responses": lambda said: {
        "type": "error",
        "code": "server_error",
        "message": said,
        "sequence_number": 0,
    },
}
"""An error as the only event of a stream."""


class Echo(ThreadServer):
    """Answers with all headers and the whole URL, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    async def handle(self, request: web.Request) -> web.StreamResponse:
        said = f"{dict(request.headers)} {request.url} {request.rel_url.query_string}"
        if self.way in STREAMS:
            event = json.dumps(STREAMS[self.way](said))
            kind = json.loads(event).get("type", "message")
            body = f"event: {kind}\ndata: {event}\n\n"
            return web.Response(text=body, headers={"Content-Type": "text/event-stream"})
        if self.way == "refuses":
            return web.json_response({"error": {"message": said}}, status=401)
        if self.way == "fails":
            return web.Response(text=said, status=500)
        if self.way == "sends error as 200":
            return web.json_response({"error": {"message": said}})
        raise web.HTTPFound(
            f"http://127.0.0.1:1/?{request.rel_url.update_query(k=KEY, h=HEADER).query_string}"
        )


@pytest.mark.parametrize("way", ["refuses", "fails", "sends error as 200", "redirects"])
def test_nothing_secret_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    with Echo(way) as server:
        model = vf.Relay(
            "m",
            base_url=f"http://user:{PASSWORD}@127.0.0.1:{server.port}/v1?token=query%3Dsecret",
            api_key_var="SOME_KEY",
            headers={"X-Api-Key": HEADER},
            max_retries=0,
        )
        run = vf.evaluate([vf.Task(vf.TaskData(prompt="p"))], model=model, dir=tmp_path).wait(30, quiet=True)
    trace = run.traces[0]
    assert trace.end_state == "error"
    assert "***" in trace.errors[-1].message
    kept = [repr(model), str(run), trace.model_dump_json(), run.frame("errors").to_string()]
    kept += [file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()]
    for text in kept:
        for secret in (KEY, PASSWORD, QUERY, HEADER, "sk-key%2F", "header+secret", "query%3Dsecret"):
            assert secret not in text


@pytest.mark.parametrize("native", [True, False], ids=["native", "translated"])
@pytest.mark.parametrize("dialect", STREAMS)
def test_nothing_secret_is_kept_of_an_error_inside_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, native: bool
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    monkeypatch.setenv("SOME_HEADER", HEADER)
    told: list[str] = []
    program = dialect if native else {"chat": "messages", "messages": "chat", "responses": "chat"}[dialect]

    @vf.harness
    async def streams(session: vf.HarnessSession, task: vf.Task) -> str:
        try:
            told.extend([str(event) async for event in await opened(session, program)])
        except Exception as error:
            told.append(f"{error} {getattr(error, 'body', '')}")
            raise
        return ""

    with Echo(dialect) as server:
        model = vf.Relay(
            "m",
            base_url=f"http://127.0.0.1:{server.port}/v1",
            api_key_var="SOME_KEY",
            headers={"X-Mine": "env:SOME_HEADER"},
            dialect=dialect,
            max_retries=0,
        )
        task = vf.Task(vf.TaskData(prompt="p"))
        run = vf.evaluate([task], model=model, harness=streams, dir=tmp_path).wait(30, quiet=True)
    trace = run.traces[0]
    assert trace.end_state == "error" and "***" in trace.errors[-1].message
    kept = [*told, trace.model_dump_json(), run.frame("errors").to_string()]
    kept += [file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()]
    for text in kept:
        for secret in (KEY, HEADER):
            assert secret not in text


async def opened(session: vf.HarnessSession, dialect: str) -> Any:
    """A stream in a program's dialect, without retries."""
    if dialect == "messages":
        talk = [{"role": "user", "content": "p"}]
        client = session.anthropic().with_options(max_retries=0)
        return await client.messages.create(model="m", max_tokens=9, messages=talk, stream=True)
    client = session.openai().with_options(max_retries=0)
    if dialect == "responses":
        return await client.responses.create(model="m", input="p", stream=True)
    return await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "p"}], stream=True
    )
