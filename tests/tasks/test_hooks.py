"""Hooks are checked when they are defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import HookError
from vfnb.tasks import plain_hook

HERE = __file__.rpartition("/")[2]


def refused(define: Callable[[], Any]) -> str:
    with pytest.raises(HookError) as caught:
        define()
    return str(caught.value)


def test_misnamed_parameter_names_class_method_place_and_nearest() -> None:
    def define() -> None:
        class Sums(vf.Task):
            @vf.reward
            async def right(self, trase: vf.Trace) -> float:
                return 1.0

    text = refused(define)
    line = define.__code__.co_firstlineno + 2
    assert "reward Sums.right" in text
    assert f"{HERE}:{line}" in text
    assert "unknown parameter `trase`; did you mean `trace`?" in text
    assert "trace, runtime, task, state" in text


@pytest.mark.parametrize("name", ["setup", "finalize"])
def test_lifecycle_methods_are_checked(name: str) -> None:
    def method(self: Any, runtim: Any) -> None:
        pass

    text = refused(lambda: type("Bad", (vf.Task,), {name: method}))
    assert f"{name} Bad." in text
    assert "did you mean `runtime`?" in text


def test_validate_may_ask_for_the_trace_of_the_check() -> None:
    class Good(vf.Task):
        async def validate(self, runtime: vf.Runtime, trace: vf.Trace) -> bool:
            return True

    def define() -> None:
        class Bad(vf.Task):
            async def validate(self, solution: str) -> bool:
                return True

    assert Good(vf.TaskData()).key
    assert "unknown parameter `solution`; a hook of this kind may take trace, runtime" in refused(define)


def test_other_impossible_signatures() -> None:
    def stars(self: Any, **everything: Any) -> float:
        return 1.0

    def positional(self: Any, trace: Any, /) -> float:
        return 1.0

    def nothing() -> float:
        return 1.0

    def make(function: Any) -> Callable[[], Any]:
        function.__qualname__ = f"Bad.{function.__name__}"
        return lambda: type("Bad", (vf.Task,), {"hook": vf.metric(function)})

    assert "`**everything: 'Any'` is not possible" in refused(make(stars))
    assert "positional-only" in refused(make(positional))
    assert "add `self` as its first parameter" in refused(make(nothing))


def test_parameter_with_a_default_is_an_own_setting_unless_it_looks_like_a_typo() -> None:
    @vf.reward
    def fine(trace: vf.Trace, scale: float = 2.0) -> float:
        return scale

    assert plain_hook(fine).spec.name == "fine"
    with pytest.raises(HookError, match="did you mean `runtime`"):

        @vf.reward
        def typo(trace: vf.Trace, runtme: Any = None) -> float:
            return 1.0


def test_plain_function_is_checked_at_once() -> None:
    with pytest.raises(HookError, match=r"unknown parameter `tracee`; did you mean `trace`\?"):

        @vf.reward(weight=0.5)
        def concise(tracee: vf.Trace) -> float:
            return 1.0


def test_decorators_bare_and_called() -> None:
    class Forms(vf.Task):
        @vf.reward
        def a(self) -> float:
            return 1.0

        @vf.reward()
        def b(self) -> float:
            return 1.0

        @vf.reward(weight=0.5, priority=2)
        def c(self) -> float:
            return 1.0

        @vf.metric
        async def d(self) -> float:
            return 1.0

        @vf.metric(priority=-1)
        @staticmethod
        def e(trace: vf.Trace) -> float:
            return 1.0

    task = Forms(vf.TaskData())
    rewards = [(hook.spec.name, hook.spec.weight) for hook in task.hooks("reward")]
    assert rewards == [("c", 0.5), ("a", 1.0), ("b", 1.0)]
    assert [hook.spec.name for hook in task.hooks("metric")] == ["d", "e"]


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "1"])
def test_weight_must_be_finite(weight: Any) -> None:
    assert "the weight must be a finite number" in refused(lambda: vf.reward(weight=weight))


def test_decorator_is_for_functions() -> None:
    assert "@reward is for functions" in refused(lambda: vf.reward(int))
    assert "@metric is for functions" in refused(lambda: vf.metric(3))  # type: ignore[call-overload]


class Parent(vf.Task):
    @vf.reward
    def first(self) -> float:
        return 1.0

    @vf.reward
    def second(self) -> float:
        return 1.0


def test_inherited_hooks_keep_their_place() -> None:
    class Child(Parent):
        @vf.reward
        def third(self) -> float:
            return 1.0

        @vf.reward(weight=3)
        def first(self) -> float:
            return 1.0

    hooks = Child(vf.TaskData()).hooks("reward")
    assert [(hook.spec.name, hook.spec.weight) for hook in hooks] == [
        ("first", 3),
        ("second", 1),
        ("third", 1),
    ]


def test_override_without_decorator_is_refused_and_none_drops_the_hook() -> None:
    def define() -> None:
        class Silent(Parent):
            def first(self) -> float:
                return 0.0

    assert "Silent.first replaces a reward and is none itself" in refused(define)

    class Dropped(Parent):
        first = None  # type: ignore[assignment]

    assert [hook.spec.name for hook in Dropped(vf.TaskData()).hooks("reward")] == ["second"]


def test_mixin_hooks_are_found_and_checked() -> None:
    class Length:
        @vf.metric
        def length(self, trace: vf.Trace) -> float:
            return 1.0

    class Mixed(Length, vf.Task):
        pass

    assert [hook.spec.name for hook in Mixed(vf.TaskData()).hooks("metric")] == ["length"]

    class Broken:
        @vf.metric
        def length(self, tracs: vf.Trace) -> float:
            return 1.0

    assert "metric Broken.length" in refused(lambda: type("Mixed", (Broken, vf.Task), {}))


def test_plain_hook_of_another_kind_is_refused() -> None:
    @vf.metric
    def length(trace: vf.Trace) -> float:
        return 1.0

    assert "length is a metric, but a reward is wanted" in refused(lambda: plain_hook(length))
    assert plain_hook(lambda trace: 1.0).spec.kind == "reward"


@pytest.mark.parametrize(
    ("base", "name", "meant"),
    [
        (vf.Task, "finalise", "finalize"),
        (vf.Task, "set_up", "setup"),
        (vf.Task, "Setup", "setup"),
        (vf.Task, "stage_verifyer", "stage_verifier"),
        (vf.Task, "validates", "validate"),
        (vf.Harness, "set_up", "setup"),
        (vf.Harness, "resumes", "resume"),
        (vf.Toolset, "setup_tasks", "setup_task"),
    ],
)
def test_a_misspelled_life_cycle_method_is_refused(base: Any, name: str, meant: str) -> None:
    async def method(self: Any) -> None: ...

    text = refused(lambda: type("Mine", (base,), {name: method}))
    assert f"method Mine.method ({__file__}:" in text
    assert f"did you mean `{meant}`?" in text
    assert f"call it `_{name}`" in text


def test_helpers_with_other_names_and_signatures_are_left_alone() -> None:
    class Mine(vf.Task[vf.TaskData]):
        async def setup(self, runtime: vf.Runtime) -> None: ...

        async def _set_up(self) -> None: ...

        async def prepare(self, trace: vf.Trace) -> None: ...

        async def setup_repository(self, runtime: vf.Runtime) -> None: ...

        def validated(self, path: str) -> str:
            return path

        @vf.reward
        def finaliser(self, trace: vf.Trace) -> float:
            return 1.0

    class Again(Mine):
        async def setup(self) -> None: ...

    assert Again(vf.TaskData(prompt="p")).hooks("reward")
