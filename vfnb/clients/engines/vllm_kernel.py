"""vLLM in this process: one thread builds an `LLMEngine` and steps it for all requests, without child processes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfnb.clients.engines.base import Generation
from vfnb.clients.engines.loading import Loading
from vfnb.clients.engines.vllm_answer import prompt_scores, read_output
from vfnb.clients.engines.vllm_child import CPU_VARIABLES, cpu_settings, mend_cpu
from vfnb.clients.engines.vllm_request import Asked
from vfnb.errors import ContextLengthError, ModelError, UpstreamRejected, UpstreamServerError

__all__ = ["Kernel"]

ENVIRONMENT = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
"""Of the thread while it builds the engine. Without multiprocessing the model runs in this very process."""


class Kernel:
    """The engine thread. Coroutines may run on any loop.

    Args:
        model: a folder or a name on the hub.
        settings: arguments of vLLM's `EngineArgs`.
        report: told how far the loading is.

    Raises:
        UpstreamServerError: from `ready`: vLLM cannot load the model.
    """

    def __init__(self, model: str, settings: Mapping[str, Any], report: Loading) -> None:
        self._model, self._settings, self._report = model, dict(settings), report
        self._lock = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._running: dict[str, _Job] = {}
        self._numbers = itertools.count()
        self._engine: Any = None
        self._adapter: Any = None
        self._adapters = itertools.count(1)
        self._closing = False
        self.max_model_len: int | None = None
        self.seeds = True
        """Whether requests may have seeds of their own."""
        self._ready = _Job(asyncio.get_running_loop(), lambda: None)
        self._thread = threading.Thread(target=self._main, name="vfnb-vllm", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it takes requests."""
        return self._thread.is_alive() and not self._closing

    async def ready(self) -> None:
        """Wait until the model is loaded."""
        await self._ready.future

    async def generate(self, prompt: Sequence[int], request: Asked, images: Sequence[str] = ()) -> Generation:
        """One completion; a cancelled one leaves the batch at the next step."""
        if images:
            raise UpstreamRejected("images need a vLLM server: vf.VLLM(model, process=True)", status=400)
        output = await self._complete(prompt, request)
        return read_output(output)

    async def score(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """float32[n]: log-probability of each token after those before it; 0.0 for the first."""
        request = Asked({"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0, "detokenize": False})
        output = await self._complete(token_ids, request)
        return prompt_scores(output.prompt_logprobs, token_ids)

    async def update_weights(self, path: str) -> None:
        """Take the weights of another folder, between two steps; what is cached of the old ones is forgotten."""

        def update() -> None:
            self._engine.collective_rpc("reload_weights", kwargs={"weights_path": path})
            self._forget()

        await self._call(update)

    async def load_lora(self, name: str, path: str) -> None:
        """Answer with an adapter from now on, in place of an earlier one."""

        def load() -> None:
            from vllm.lora.request import LoRARequest

            request = LoRARequest(lora_name=name, lora_int_id=next(self._adapters), lora_path=path)
            self._engine.add_lora(request)
            self._drop_adapter()
            self._adapter = request
            self._forget()

        await self._call(load)

    async def unload_lora(self) -> None:
        """Answer without an adapter again."""
        await self._call(self._drop_adapter)

    def _drop_adapter(self) -> None:
        if self._adapter is not None:
            self._engine.remove_lora(self._adapter.lora_int_id)
            self._adapter = None

    def _forget(self) -> None:
        self._engine.reset_prefix_cache(reset_running_requests=True)

    def stop(self, timeout: float = 30.0) -> None:
        """End the thread and free the model; waits for it. What waits fails."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    async def _complete(self, prompt: Sequence[int], request: Asked) -> Any:
        name = f"vfnb-{next(self._numbers)}"
        ids = np.asarray(prompt, np.int32).tolist()
        job = _Job(asyncio.get_running_loop(), lambda: self._admit(name, ids, request), name)
        self._put(job)
        try:
            return await job.future
        except asyncio.CancelledError:
            self._put(_Job(None, lambda: self._abort(name)))
            raise

    async def _call(self, work: Callable[[], None]) -> None:
        job = _Job(asyncio.get_running_loop(), work)
        self._put(job)
        try:
            await job.future
        except ModelError:
            raise
        except Exception as error:
            raise UpstreamServerError(f"vLLM refused: {type(error).__name__}: {error}") from error

    def _put(self, job: _Job) -> None:
        with self._lock:
            if self._closing or not self._thread.is_alive():
                job.fail(UpstreamServerError("the vLLM engine has been stopped"))
                return
            self._jobs.append(job)
            self._lock.notify_all()

    # the thread

    def _main(self) -> None:
        try:
            with _environment(ENVIRONMENT), _told(self._report):
                self._build()
        except BaseException as error:
            self._end(UpstreamServerError(f"vLLM could not load {self._model}: {_first(error)}"))
            return
        self._ready.settle(None)
        problem: ModelError = UpstreamServerError("the vLLM engine has been stopped")
        try:
            while self._work():
                pass
        except Exception as error:  # whoever waits must hear of it
            problem = UpstreamServerError(f"vLLM failed and has been stopped: {_first(error)}")
        self._end(problem)

    def _build(self) -> None:
        self._report("importing vLLM")
        from vllm.platforms import current_platform

        settings = {
            "logprobs_mode": "processed_logprobs",
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        if current_platform.is_cpu():
            settings |= cpu_settings(self._settings, os.environ)
            mend_cpu(current_platform)
        from vllm import EngineArgs, LLMEngine

        self._report("loading the model")
        arguments = EngineArgs(model=self._model, **(settings | self._settings))
        self._engine = LLMEngine.from_engine_args(arguments)
        config = self._engine.vllm_config
        self.max_model_len = int(config.model_config.max_model_len)
        self.seeds = not (
            current_platform.is_cpu() and config.scheduler_config.enable_chunked_prefill
        )  # a chunked prefill rewinds the generators, which those of a CPU cannot
        self._report("warming up")
        self._warm_up()

    def _warm_up(self) -> None:
        """The first request builds kernels, which takes seconds."""
        self._admit("vfnb-first", [0], Asked({"max_tokens": 2, "ignore_eos": True}))
        while self._engine.has_unfinished_requests():
            self._engine.step()

    def _work(self) -> bool:
        """Take what has come, make one step; False when it is over."""
        with self._lock:
            while not self._jobs and not self._running and not self._closing:
                self._lock.wait()
            if self._closing:
                return False
            jobs = list(self._jobs)
            self._jobs.clear()
        for job in jobs:
            self._take(job)
        if self._running:
            for output in self._engine.step():
                if output.finished and output.request_id in self._running:
                    self._running.pop(output.request_id).settle(output)
        return True

    def _take(self, job: _Job) -> None:
        if job.name is not None:
            self._running[job.name] = job
        try:
            job.work()
        except Exception as error:
            if job.name is not None:
                self._running.pop(job.name, None)
            job.fail(error)
            return
        if job.name is None:
            job.settle(None)

    def _admit(self, name: str, ids: list[int], request: Asked) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        params = {"logprobs": 0, **request.params, "output_kind": RequestOutputKind.FINAL_ONLY}
        if "structured_outputs" in params:
            params["structured_outputs"] = StructuredOutputsParams(**params["structured_outputs"])
        limit = self.max_model_len
        if limit is not None and len(ids) >= limit:
            raise ContextLengthError(
                f"This model's maximum context length is {limit} tokens, the prompt has {len(ids)}.",
                status=400,
            )
        prompt: dict[str, Any] = {"prompt_token_ids": ids}
        if "cache_salt" in request.beside:
            prompt["cache_salt"] = request.beside["cache_salt"]
        try:
            sampling = SamplingParams(**params)
            (rendered,) = self._engine.renderer.render_cmpl([prompt])
            self._engine.add_request(
                name,
                rendered,
                sampling,
                lora_request=self._adapter,
                priority=int(request.beside.get("priority", 0)),
            )
        except (ValueError, TypeError) as error:
            raise UpstreamRejected(f"vLLM refused the request: {error}", status=400) from error

    def _abort(self, name: str) -> None:
        if self._running.pop(name, None) is not None:
            self._engine.abort_request([name])

    def _end(self, problem: ModelError) -> None:
        with self._lock:
            self._closing = True
            left = [self._ready, *self._jobs, *self._running.values()]
            self._jobs.clear()
            self._running.clear()
        engine, self._engine = self._engine, None
        if engine is not None:
            _shut_down(engine)
        for job in left:
            job.fail(problem)


@dataclass(slots=True, eq=False)
class _Job:
    """Work for the thread, and the future of whoever waits for it. With a name it is a request."""

    loop: asyncio.AbstractEventLoop | None
    work: Callable[[], None]
    name: str | None = None
    future: Any = None

    def __post_init__(self) -> None:
        if self.loop is not None:
            self.future = self.loop.create_future()

    def settle(self, value: Any) -> None:
        self._then(lambda: self.future.set_result(value))

    def fail(self, error: Exception) -> None:
        self._then(lambda: self.future.set_exception(error))

    def _then(self, act: Callable[[], None]) -> None:
        if self.loop is None or self.loop.is_closed():
            return
        self.loop.call_soon_threadsafe(lambda: None if self.future.done() else act())


def _shut_down(engine: Any) -> None:
    """Free the model's memory, as `vllm.LLM.shutdown` does."""
    import gc

    try:
        engine.engine_core.shutdown()
    except Exception:
        logging.getLogger("vfnb.clients").warning("vLLM did not shut down cleanly", exc_info=True)
    del engine
    gc.collect()


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables that vLLM reads while it starts; the user's own come back."""
    before = {name: os.environ.get(name) for name in (*values, *CPU_VARIABLES)}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _told(report: Loading) -> Iterator[None]:
    """vLLM's log as progress, and on the screen only errors; as the user wants it if he has said so."""
    chosen = "VLLM_LOGGING_LEVEL" in os.environ or "VLLM_CONFIGURE_LOGGING" in os.environ
    logger = logging.getLogger("vllm")
    handler = _Lines(report)
    if chosen:
        import vllm  # noqa: F401 -- it sets its logging up, and handlers before that are lost
    else:
        os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
        logger.setLevel(logging.INFO)
        logger.propagate = False
        if not logger.handlers:
            screen = logging.StreamHandler()
            screen.setLevel(logging.ERROR)
            logger.addHandler(screen)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        if not chosen:
            del os.environ["VLLM_CONFIGURE_LOGGING"]


class _Lines(logging.Handler):
    def __init__(self, report: Loading) -> None:
        super().__init__(logging.INFO)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        self._report(record.getMessage().splitlines()[0] if record.getMessage() else "")


def _first(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:4000]
