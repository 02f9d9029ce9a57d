"""Settings of runtimes and the open table of their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from vfnb.errors import ConfigError
from vfnb.runtimes import (
    AnyRuntimeConfig,
    InProcessConfig,
    InProcessRuntime,
    RuntimeConfig,
    SubprocessConfig,
    SubprocessRuntime,
    make_runtime,
    register_runtime,
    runtime_class,
    runtime_config,
)
from vfnb.runtimes.config import _KINDS
from vfnb.utils.config import BaseConfig


class BoxConfig(RuntimeConfig):
    type: str = "box"
    size: int = 1


class BoxRuntime(InProcessRuntime):
    type: ClassVar[str] = "box"

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.size = config.size


@pytest.fixture
def box() -> Iterator[None]:
    register_runtime(BoxConfig, BoxRuntime)
    yield
    del _KINDS["box"]


def test_forms_of_a_config() -> None:
    assert runtime_config() == InProcessConfig()
    assert runtime_config("subprocess") == SubprocessConfig()
    assert runtime_config({"type": "subprocess", "grace": 1}) == SubprocessConfig(grace=1)
    given = SubprocessConfig(env={"A": "1"})
    assert runtime_config(given) is given


def test_make_runtime() -> None:
    assert isinstance(make_runtime(), InProcessRuntime)
    assert isinstance(make_runtime("subprocess"), SubprocessRuntime)
    assert runtime_class("subprocess").RUNS_PROGRAMS
    assert not runtime_class("inprocess").RUNS_PROGRAMS


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("subproces", "runtime 'subproces' is unknown; did you mean 'subprocess'?"),
        ({"type": "subprocess", "garce": 1}, "runtime.garce: unknown key; did you mean grace?"),
        ({"type": "subprocess", "grace": -1}, "runtime.grace: input should be greater than or equal to 0"),
        ({"grace": 1}, "runtime.type: required, one of "),
        (3, "expected a runtime's name, a mapping or a RuntimeConfig, got 3"),
    ],
)
def test_wrong_configs(value: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_runtime(value)
    assert text in str(caught.value)


@pytest.mark.usefixtures("box")
def test_registered_kind_works_like_ours() -> None:
    runtime = make_runtime({"type": "box", "size": 3})
    assert isinstance(runtime, BoxRuntime)
    assert runtime.size == 3


def test_kind_needs_a_name() -> None:
    class Nameless(InProcessRuntime):
        type: ClassVar[str] = ""

    with pytest.raises(ConfigError, match="set the class variable `type`"):
        register_runtime(BoxConfig, Nameless)


def test_field_in_a_config_keeps_the_kind_s_own_settings() -> None:
    class Run(BaseConfig):
        runtime: AnyRuntimeConfig = InProcessConfig()

    run = Run(runtime="subprocess")  # type: ignore[arg-type]
    assert run.runtime == SubprocessConfig()
    dumped = Run(runtime=SubprocessConfig(grace=9)).model_dump()
    assert dumped["runtime"]["grace"] == 9
    assert Run.model_validate(dumped).runtime == SubprocessConfig(grace=9)
    with pytest.raises(ConfigError, match="did you mean 'subprocess'"):
        Run(runtime="subproces")  # type: ignore[arg-type]
