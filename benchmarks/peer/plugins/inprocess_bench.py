"""The peer's shortest rollout: a harness that asks its server from inside the host process, without a program."""

import httpx
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.harness import Harness
from verifiers.v1.runtimes import ProgramResult

_clients: list[httpx.AsyncClient] = []


class InProcessConfig(HarnessConfig):
    pass


class InProcessHarness(Harness[InProcessConfig]):
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    APPENDS_SYSTEM_PROMPT = True

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url=None):
        if not _clients:
            _clients.append(httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=1000)))
        _, prompt = self.resolve_prompt(data)
        body = {"model": ctx.model, "messages": [{"role": "user", "content": prompt}]}
        headers = {"Authorization": f"Bearer {secret}"}
        reply = await _clients[0].post(f"{endpoint}/chat/completions", json=body, headers=headers)
        return ProgramResult(exit_code=int(reply.status_code != 200), stdout=reply.text, stderr="")


__all__ = ["InProcessHarness"]
