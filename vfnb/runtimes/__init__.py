"""Where programs run: in this process (files only), or as subprocesses in a folder of their own."""

from vfnb.runtimes.archive import Archive
from vfnb.runtimes.base import BackgroundProgram, ProgramResult, Runtime
from vfnb.runtimes.config import (
    AnyRuntimeConfig,
    InProcessConfig,
    PublicEnv,
    RuntimeConfig,
    SubprocessConfig,
    make_runtime,
    register_runtime,
    runtime_class,
    runtime_config,
)
from vfnb.runtimes.inprocess import InProcessRuntime
from vfnb.runtimes.subprocess import SubprocessRuntime

__all__ = [
    "AnyRuntimeConfig",
    "Archive",
    "BackgroundProgram",
    "InProcessConfig",
    "InProcessRuntime",
    "ProgramResult",
    "PublicEnv",
    "Runtime",
    "RuntimeConfig",
    "SubprocessConfig",
    "SubprocessRuntime",
    "make_runtime",
    "register_runtime",
    "runtime_class",
    "runtime_config",
]
