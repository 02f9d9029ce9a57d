"""Starts vLLM's API server with what a CPU needs. Standard library and vLLM only: another Python may run this file.

python vllm_child.py --model FOLDER --uds SOCKET ...
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

__all__ = ["CPU_VARIABLES", "cpu_settings", "mend_cpu"]

CPU_VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}  # GiB; no pinned threads
_BATCHED = 2048  # tokens of a step: vLLM's own default on a CPU
_WHOLE = (
    8192  # the longest context whose prefills are done at once: vLLM tries the largest step when it starts
)


def cpu_settings(given: Mapping[str, Any], environment: MutableMapping[str, str]) -> dict[str, Any]:
    """Engine arguments for a CPU, and variables in `environment`; what the user has set stays.

    Without them the worker claims nearly all memory and pins threads that spin. With a `max_model_len` up to 8192
    prefills are not chunked: a chunk rewinds the generator of a request with a seed, which fails on a CPU and ends
    the engine (vLLM 0.31, 0.32).
    """
    for name, value in CPU_VARIABLES.items():
        environment.setdefault(name, value)
    settings: dict[str, Any] = {"enforce_eager": True}
    limit = given.get("max_model_len")
    if isinstance(limit, int) and limit <= _WHOLE:
        settings |= {"enable_chunked_prefill": False, "max_num_batched_tokens": max(limit, _BATCHED)}
    return settings


def mend_cpu(platform: Any) -> None:
    """Two things of vLLM on a CPU, before an engine is built."""
    _no_compiler(platform)
    _repack()


def _no_compiler(platform: Any) -> None:
    """Run small helpers as they are: compiling them costs the first request 20 s."""
    if hasattr(type(platform), "simple_compile_backend"):
        type(platform).simple_compile_backend = "eager"


def _repack() -> None:
    """A head that shares the embedding has a packed copy of it, which a reload leaves as it was (vLLM 0.31)."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    reload = GPUModelRunner.reload_weights

    def reload_weights(self: Any, *args: Any, **keys: Any) -> None:
        reload(self, *args, **keys)
        for module in self.get_model().modules():
            if type(module).__name__ == "ParallelLMHead" and hasattr(module, "cpu_linear"):
                module.quant_method.process_weights_after_loading(module)

    if not getattr(reload, "repacks", False):
        reload_weights.repacks = True  # type: ignore[attr-defined]
        GPUModelRunner.reload_weights = reload_weights


def main(arguments: list[str]) -> None:
    """Run the server in this process."""
    import runpy

    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        mend_cpu(current_platform)
        given = {name: _value(arguments, name) for name in ("max_model_len",)}
        for name, value in cpu_settings(given, os.environ).items():
            if _value(arguments, name) is None and f"--no-{_flag(name)[2:]}" not in arguments:
                arguments.append(_written(name, value))
    sys.argv = ["vllm", *arguments]
    runpy.run_module(
        "vllm.entrypoints.openai.api_server", run_name="__main__"
    )  # this file stays the main one


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _written(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return _flag(name) if value else f"--no-{_flag(name)[2:]}"
    return f"{_flag(name)}={value}"


def _value(arguments: list[str], name: str) -> Any:
    """The value of a flag, True for one without; None if it is not there."""
    flag = _flag(name)
    for entry in arguments:
        if entry == flag:
            return True
        if entry.startswith(f"{flag}="):
            text = entry.partition("=")[2]
            return int(text) if text.isdigit() else text
    return None


if __name__ == "__main__":
    del sys.path[0]  # this file's folder, which has a module of vLLM's name
    main(sys.argv[1:])
elif __name__ == "__mp_main__":  # a process that the server has spawned: it begins with its main file
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        mend_cpu(current_platform)
