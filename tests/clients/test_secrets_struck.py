"""A server that repeats what it was sent does not carry a secret into errors, traces or files."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web
from support.server import ThreadServer

import vfnb as vf

KEY, PASSWORD, QUERY, HEADER = "sk-key/with+odd=", "pass-word-1", "query=secret", "header secret"


class Echo(ThreadServer):
    """Answers with all headers and the whole URL, in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    async def handle(self, request: web.Request) -> web.StreamResponse:
        said = f"{dict(request.headers)} {request.url} {request.rel_url.query_string}"
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
