"""`VLLM`: a vLLM engine behind the token seam, in this process, in a child, or as a server that runs already."""

from __future__ import annotations

import asyncio
import json
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vfnb import loops
from vfnb.clients.address import public_url
from vfnb.clients.engines.base import Generation, ImageEngine, Progress, TokenSampling
from vfnb.clients.engines.loading import Loading, loading
from vfnb.clients.engines.model_files import model_folder, weights_digest
from vfnb.clients.engines.vllm_checks import check_form, check_vllm, is_path
from vfnb.clients.engines.vllm_http import Server
from vfnb.clients.engines.vllm_live import Live, end_later
from vfnb.clients.engines.vllm_process import Child
from vfnb.clients.engines.vllm_request import SUPPORTS, Asked, asked, is_plain
from vfnb.errors import ConfigError, ContextLengthError, UpstreamRejected

if TYPE_CHECKING:
    from vfnb.clients.engines.vllm_kernel import Kernel

__all__ = ["VLLM"]

START_TIMEOUT_S = 1800.0
"""Longest loading of a child, in seconds: large models take many minutes."""
_PROBES = ("The capital of France is", "1 2 3 4", "a b c d e")
Ids = NDArray[np.int32]


class _Backend(Protocol):
    """What the three forms have in common."""

    max_model_len: int | None
    seeds: bool

    async def generate(
        self, prompt: Sequence[int], request: Asked, images: Sequence[str] = ()
    ) -> Generation: ...
    async def score(self, token_ids: Sequence[int]) -> NDArray[np.float32]: ...
    async def update_weights(self, path: str) -> None: ...
    async def load_lora(self, name: str, path: str) -> None: ...
    async def unload_lora(self) -> None: ...


class VLLM(ImageEngine):
    """A model on vLLM, asked with token ids.

    | form | what runs |
    |---|---|
    | `VLLM(model)` | the engine in this process, on a thread of its own; no child processes |
    | `VLLM(model, process=True)` | a server in a child process, reached by a private socket |
    | `VLLM(model, url=...)` | a server that somebody else has started; its own name for the model, or None |

    It loads with the first call (or `await engine.start()`) and stays loaded over many runs, until `stop()`, the
    end of a `with` block, or the end of the interpreter.

    Args:
        model: a folder as Hugging Face stores models, or a name on its hub.
        process: run a server of its own.
        url: root of a running server.
        python: interpreter of another environment that has vLLM, for `process=True`.
        renderer: how messages become tokens, as for `vf.TrainClient`. None takes the family that the `renderers`
            package knows by the model's name, or one that writes the same tokens as the model's own template.
        tokenizer: folder or hub name of the tokenizer, if it is not in the model's folder.
        api_key_var: environment variable with the server's key, for `url`.
        settings: vLLM's engine arguments, e.g. `max_model_len=4096`, `dtype="float32"`, `enable_lora=True`.

    Log-probabilities are those of the distribution that was sampled from (`logprobs_mode="processed_logprobs"`).

    Raises:
        ConfigError: the arguments do not fit together.
    """

    SUPPORTS = SUPPORTS

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        process: bool = False,
        url: str | None = None,
        python: str | Path | None = None,
        renderer: Any = None,
        tokenizer: str | Path | None = None,
        api_key_var: str | None = "OPENAI_API_KEY",
        **settings: Any,
    ) -> None:
        check_form(model, process=process, url=url, python=python, settings=settings)
        self._source = None if model is None else str(model)
        self._folder = Path(model).expanduser() if model is not None and is_path(str(model)) else None
        self.model = self._folder.resolve().name if self._folder is not None else (self._source or "")
        self._process, self._url, self._settings = process, url, settings
        self._python = _program(python)
        self._renderer = renderer
        self._tokenizer_source = None if tokenizer is None else str(tokenizer)
        self._key_var = api_key_var
        self._tokenizer: Any = None
        self._weights: str | None = None
        self._adapter: tuple[str, str] | None = None
        self._backend: _Backend | None = None
        self._live = Live()
        self._starting: asyncio.Task[None] | None = None
        weakref.finalize(self, end_later, self._live).atexit = False  # the interpreter's end is seen to there

    def check(self) -> None:
        if self._folder is not None and self._url is None and not (self._folder / "config.json").is_file():
            raise ConfigError(
                f"{self._folder} has no config.json; give a folder with a model, or its name on the hub"
            )
        if self._url is None:
            check_vllm(self._python if self._process else None)
        self.tokenizer()

    def identity(self) -> dict[str, Any]:
        """Kind, model, weights, adapter and the settings that were given; a server also by its address."""
        found: dict[str, Any] = {"kind": "vllm", "model": self.model, "weights": self._weights_name()}
        if self._adapter is not None:
            found["lora"] = list(self._adapter)
        if self._settings:
            found["settings"] = json.loads(json.dumps(self._settings, default=str, sort_keys=True))
        if self._url is not None:
            found["url"] = public_url(self._url)
        return found

    def _weights_name(self) -> str:
        if self._weights is None:
            local = self._folder if self._url is None else None
            self._weights = (self._source or "") if local is None else weights_digest(local)
        return self._weights

    # tokenizer and template

    def tokenizer(self) -> Any:
        """The model's tokenizer, from its `tokenizer.json`.

        Raises:
            ConfigError: there is none; give `tokenizer=`.
            MissingExtra: the tokenizers package is not installed.
        """
        if self._tokenizer is None:
            from vfnb.clients.engines.tokenizer import load_tokenizer

            self._tokenizer = load_tokenizer(model_folder(self._tokenizer_name()))
        return self._tokenizer

    def _tokenizer_name(self) -> str:
        if self._tokenizer_source is not None:
            return self._tokenizer_source
        if self._source is not None and (self._folder is None or self._folder.is_dir()):
            return self._source
        raise ConfigError(
            "the model's tokenizer is needed on this side: vf.VLLM(..., tokenizer=FOLDER or name on the hub)"
        )

    @property
    def renderer(self) -> Any:
        """The renderer that was given, or found to fit.

        Raises:
            ConfigError: none fits the model's chat template; name one.
        """
        if self._renderer is None:
            from vfnb.clients.choosing import choose

            self._renderer, self.default_system = choose(self.tokenizer(), self._tokenizer_name())
        return self._renderer

    # loading

    async def start(self, progress: Progress | None = None) -> None:
        """Load the model if it is not loaded; several callers wait for one loading.

        Raises:
            ModelError: it cannot be loaded.
        """
        if self._backend is None or not self._live.alive:
            await loops.engine().do(self._started(progress))

    async def _started(self, progress: Progress | None) -> None:
        if self._backend is not None and self._live.alive:
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._load(progress))
            self._starting.add_done_callback(_looked_at)
        await asyncio.shield(self._starting)

    async def _load(self, progress: Progress | None) -> None:
        self._backend = None
        await asyncio.to_thread(self._live.end)  # of one that broke
        backend: _Backend
        try:
            with loading(f"vLLM {self.model}", progress) as report:
                if self._url is not None:
                    name = self.model if self._folder is not None else self._source
                    backend = await self._attach(Server(self._url, name, key_var=self._key_var))
                elif self._process:
                    backend = await self._spawn(report)
                else:
                    backend = await self._inside(report)
        except BaseException:
            await asyncio.to_thread(self._live.end)
            raise
        self.max_model_len = backend.max_model_len
        self._backend = backend

    async def _attach(self, server: Server) -> Server:
        self._live.hold(server=server)
        await server.start()
        self.model = self.model or str(server.model)
        return server

    async def _spawn(self, report: Loading) -> Server:
        child = Child(self._python, self._path(), self.model, self._settings)
        self._live.hold(child=child)
        await asyncio.to_thread(child.launch)
        await child.ready(report, START_TIMEOUT_S)
        report("warming up")
        return await self._attach(Server("http://vllm", self.model, socket=child.socket))

    async def _inside(self, report: Loading) -> Kernel:
        from vfnb.clients.engines.vllm_kernel import Kernel

        kernel = Kernel(self._path(), self._settings, report)
        self._live.hold(kernel=kernel)
        await kernel.ready()
        return kernel

    def _path(self) -> str:
        return str(self._source if self._folder is None else self._folder.absolute())

    async def _ready(self) -> _Backend:
        await self.start()
        assert self._backend is not None
        return self._backend

    # calls

    async def generate(
        self, prompt_ids: Sequence[int] | Ids, sampling: TokenSampling, images: Sequence[str] = ()
    ) -> Generation:
        return await loops.engine().do(self._generate(prompt_ids, sampling, images))

    async def _generate(
        self, prompt_ids: Sequence[int] | Ids, sampling: TokenSampling, images: Sequence[str]
    ) -> Generation:
        backend = await self._ready()
        room = None if images else self._room(len(prompt_ids))
        request = asked(sampling, room)
        if not backend.seeds:
            request.params.pop("seed", None)
        if isinstance(backend, Server) and self._url is not None:
            await self._check_logprobs(backend, sampling)
        return await backend.generate(list(map(int, prompt_ids)), request, images)

    async def score(self, token_ids: Sequence[int] | Ids) -> NDArray[np.float32]:
        return await loops.engine().do(self._score(token_ids))

    async def _score(self, token_ids: Sequence[int] | Ids) -> NDArray[np.float32]:
        backend = await self._ready()
        self._room(len(token_ids))
        return await backend.score(list(map(int, token_ids)))

    def _room(self, tokens: int) -> int | None:
        limit = self.max_model_len
        if limit is None:
            return None
        if tokens >= limit:
            raise ContextLengthError(
                f"This model's maximum context length is {limit} tokens, the prompt has {tokens}.", status=400
            )
        return limit - tokens

    async def _check_logprobs(self, server: Server, sampling: TokenSampling) -> None:
        sent = {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
        if is_plain(sent | {"min_p": sampling.min_p} | dict(sampling.extra)):
            return
        if not await server.processed([self.tokenizer().encode(text) for text in _PROBES]):
            raise UpstreamRejected(
                f"{public_url(self._url)} gives log-probabilities from before temperature, top_p and the like, "
                "which are not those of what it samples: start it with --logprobs-mode=processed_logprobs, or "
                "sample at temperature 1 without them",
                status=400,
            )

    @property
    def seeds(self) -> bool:  # type: ignore[override]
        """Whether requests may have seeds: a CPU that chunks prefills dies of them (vLLM 0.31)."""
        return self._backend is None or self._backend.seeds

    # weights

    async def update_weights(self, path: str | Path) -> None:
        """Take other weights of the same architecture from now on. Runs that are under way refuse to go on.

        Args:
            path: a folder with safetensors; a server reads it by the same path.

        Raises:
            ConfigError: the folder has none.
            ModelError: they cannot be taken; the server has no such route.
        """
        await loops.engine().do(self._update(*self._located(path)))

    async def _update(self, path: str, digest: str) -> None:
        backend = await self._ready()
        self._weights = f"?{digest}"  # if it fails half-way they are neither the old ones nor these
        await backend.update_weights(path)
        self._weights = digest

    async def load_lora(self, name: str, path: str | Path) -> None:
        """Answer with a LoRA adapter from now on, in place of an earlier one. Needs `enable_lora=True`.

        Args:
            name: how a server calls it.
            path: its folder; a server reads it by the same path.

        Raises:
            ConfigError: the folder has no weights.
            ModelError: it cannot be loaded.
        """
        await loops.engine().do(self._load_lora(name, *self._located(path)))

    async def _load_lora(self, name: str, path: str, digest: str) -> None:
        backend = await self._ready()
        await backend.load_lora(name, path)
        self._adapter = name, digest

    async def unload_lora(self) -> None:
        """Answer without an adapter again."""
        await loops.engine().do(self._unload_lora())

    async def _unload_lora(self) -> None:
        if self._adapter is not None:
            await (await self._ready()).unload_lora()
            self._adapter = None

    def _located(self, path: str | Path) -> tuple[str, str]:
        """A folder's full path and the name of its weights; the path alone if only the server can see it."""
        folder = Path(path).expanduser().absolute()
        if self._url is not None and not folder.is_dir():
            return str(path), str(path)
        if not list(folder.glob("*.safetensors")):
            raise ConfigError(f"{folder} has no *.safetensors; give the folder of a checkpoint")
        return str(folder), weights_digest(folder)

    # the end

    async def close(self) -> None:
        """Unload the model: end thread or child, close connections. It may be started again."""
        await loops.engine().do(self._close())

    async def _close(self) -> None:
        self._backend = None
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        await self._live.close_server()
        await asyncio.to_thread(self._live.end)
        if self._url is None:  # what is loaded next is the model as it was given
            self._adapter = self._weights = None

    async def release(self) -> None:
        """Nothing: the next run finds it loaded."""

    def stop(self) -> None:
        """`close`, for code that is not async; blocks for some seconds."""
        loops.engine().run(self._close())

    @property
    def pid(self) -> int | None:
        """The child's process id; None for the other forms."""
        return None if self._live.child is None else self._live.child.pid

    def __enter__(self) -> VLLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        form = f", url={public_url(self._url)!r}" if self._url else ", process=True" if self._process else ""
        return f"VLLM({self.model!r}{form})"


def _program(python: str | Path | None) -> str:
    """An interpreter as a path that another working folder does not change; links stay, they are environments."""
    if python is None:
        return sys.executable
    return str(Path(python).expanduser().absolute()) if "/" in str(python) else str(python)


def _looked_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
