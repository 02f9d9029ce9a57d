"""Views pick tasks lazily and chain in any order; an empty selection is an error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vfnb as vf
from vfnb.errors import ConfigError, EmptySelection, TasksetError
from vfnb.tasks import FilterConfig

built: list[int] = []


class Numbers(vf.Taskset[vf.Task, vf.TasksetConfig]):
    """Ten tasks named n0 to n9, with ids and keys; notes what it builds."""

    def load(self) -> Iterator[vf.Task]:
        for i in range(10):
            built.append(i)
            yield vf.Task(vf.TaskData(prompt=str(i), name=f"n{i}", id=f"id{i}", key=f"k{i}"))


class Forever(vf.Taskset):
    INFINITE = True

    def load(self) -> Iterator[vf.Task]:
        for i in count():
            built.append(i)
            yield vf.Task(vf.TaskData(prompt=str(i), name=f"n{i}"))


@pytest.fixture(autouse=True)
def _forget() -> None:
    built.clear()


def idx(tasks: Any) -> list[int]:
    return [task.data.idx for task in tasks]


def test_idx_is_the_load_position_unless_given() -> None:
    assert idx(Numbers()) == list(range(10))
    given_ones = vf.Taskset.of([vf.TaskData(idx=7), vf.TaskData(idx=3, prompt="x")])
    assert idx(given_ones) == [7, 3]


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        (["2:5"], [2, 3, 4]),
        (["7:"], [7, 8, 9]),
        (["::4"], [0, 4, 8]),
        (["1:8:3"], [1, 4, 7]),
        ([3, "5"], [3, 5]),
        (3, [3]),
        ("0:2", [0, 1]),
        ([" 1 : 3 ", 9], [1, 2, 9]),
        ([":2"], [0, 1]),
    ],
)
def test_idx_entries(entries: Any, kept: list[int]) -> None:
    assert idx(Numbers().include(idx=entries)) == kept
    assert idx(Numbers().exclude(idx=entries)) == [i for i in range(10) if i not in kept]


@pytest.mark.parametrize("entry", ["-1:", "0:-1", "a", "1-3", -2, "::0", "", 1.5, True])
def test_wrong_idx_entries(entry: Any) -> None:
    with pytest.raises(ConfigError, match="expected a"):
        Numbers().include(idx=[entry])


def test_any_list_that_names_a_task_matches_it() -> None:
    assert idx(Numbers().include(idx=[1], ids=["id2"], keys="k3", names=["n4", "n1"])) == [1, 2, 3, 4]
    assert idx(Numbers().exclude(idx=["2:"], names=["n0"])) == [1]


def test_filter_needs_an_entry() -> None:
    with pytest.raises(ConfigError, match=r"include\(\) needs at least one of idx, ids, keys, names"):
        Numbers().include()


def test_views_chain_in_any_order_as_a_pipeline() -> None:
    base = Numbers()
    assert idx(base.take(5).skip(2)) == [2, 3, 4]
    assert idx(base.skip(2).take(5)) == [2, 3, 4, 5, 6]
    assert idx(base.exclude(names=["n3"]).include(idx=["2:6"]).skip(1)) == [4, 5]
    mixed = base.include(idx=["0:100"]).exclude(names=["n1"]).shuffle(seed=0).take(5)
    assert len(idx(mixed)) == 5
    assert idx(base) == list(range(10))  # views are copies


def test_views_are_lazy() -> None:
    taskset = Numbers().include(idx=["3:"]).exclude(idx=[4]).take(2)
    assert built == []
    assert idx(taskset) == [3, 5]
    assert built == [0, 1, 2, 3, 4, 5]


def test_take_builds_no_more_than_it_takes() -> None:
    assert len(Numbers().take(3).resolve()) == 3
    assert built == [0, 1, 2]


def test_closed_include_stops_when_it_has_them_all() -> None:
    assert idx(Numbers().include(idx=["1:3", 5])) == [1, 2, 5]
    assert built == [0, 1, 2, 3, 4, 5]


def test_closed_include_of_given_positions_finds_them_anywhere() -> None:
    taskset = vf.Taskset.of([vf.TaskData(idx=i, prompt=str(i)) for i in (9, 8, 1, 0)])
    assert idx(taskset.include(idx=["0:2"])) == [1, 0]


def test_shuffle_depends_on_the_seed_and_is_repeatable() -> None:
    one, two = idx(Numbers().shuffle(seed=1)), idx(Numbers().shuffle(seed=1))
    assert one == two != idx(Numbers().shuffle(seed=2))
    assert sorted(one) == list(range(10))


@given(st.integers(0, 1000), st.integers(1, 9), st.integers(0, 9))
def test_a_larger_limit_extends_the_sample_and_skip_is_disjoint(seed: int, limit: int, skip: int) -> None:
    base = {"shuffle": True, "seed": seed}
    small = idx(Numbers().select({**base, "limit": limit}))
    large = idx(Numbers().select({**base, "limit": limit + 1}))
    assert large[:limit] == small
    rest = idx(Numbers().select({**base, "skip": limit + skip}))
    assert not set(rest) & set(small)


def test_select_has_a_fixed_order() -> None:
    config = vf.SelectConfig(
        limit=3,
        skip=1,
        shuffle=True,
        exclude=FilterConfig(names=["n2"]),
        include=FilterConfig(idx=["0:8"]),
    )
    by_hand = Numbers().include(idx=["0:8"]).exclude(names=["n2"]).shuffle(seed=0).skip(1).take(3)
    assert idx(Numbers().select(config)) == idx(by_hand)
    assert idx(Numbers().select()) == list(range(10))
    with pytest.raises(ConfigError, match=r"select\.include\.name: unknown key; did you mean names\?"):
        Numbers().select({"include": {"name": ["n1"]}})


def test_entries_that_match_nothing_are_logged_once_the_stream_is_consumed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "vfnb.tasks"):
        stream = iter(Numbers().include(idx=["50:"], names=["n1", "nope"]).exclude(keys=["gone"]))
        next(stream)
        assert caplog.messages == []
        assert list(stream) == []
    assert caplog.messages == [
        "include(idx=['50:']) matched no task",
        "include(names=['nope']) matched no task",
        "exclude(keys=['gone']) matched no task",
    ]


def test_a_stream_that_was_not_consumed_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "vfnb.tasks"):
        assert idx(Numbers().exclude(names=["n9"]).take(2)) == [0, 1]
    assert caplog.messages == []


def test_empty_selection_is_an_error_that_shows_the_chain() -> None:
    with pytest.raises(EmptySelection) as caught:
        Numbers().include(names=["nope"]).take(3).resolve()
    assert str(caught.value) == (
        "Numbers: no task is left after include(names=['nope']).take(3); widen the selection"
    )
    with pytest.raises(EmptySelection):
        Numbers().take(0).resolve()
    with pytest.raises(EmptySelection):
        Numbers().skip(10).resolve()


@pytest.mark.parametrize("make", [lambda t: t.take(-1), lambda t: t.skip("2"), lambda t: t.take(True)])
def test_counts_are_numbers(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ConfigError, match="expected a number of tasks"):
        make(Numbers())


# Loading


def test_zero_tasks_is_an_error() -> None:
    with pytest.raises(TasksetError, match=r"load\(\) gave no tasks"):
        vf.Taskset.of([]).resolve()


def test_duplicate_keys_and_positions_are_errors() -> None:
    with pytest.raises(TasksetError, match="tasks 0 and 1 have the same key 'a'"):
        vf.Taskset.of([vf.TaskData(key="a"), vf.TaskData(key="a")]).resolve()
    with pytest.raises(TasksetError, match="two tasks have idx 1"):
        vf.Taskset.of([vf.TaskData(idx=1), vf.TaskData(prompt="x")]).resolve()


def test_equal_tasks_get_keys_of_their_own() -> None:
    same = [vf.TaskData(prompt="2+2?") for _ in range(3)]
    keys = [task.key for task in vf.Taskset.of(same).resolve()]
    assert len(set(keys)) == 3
    assert keys[0] == same[0].content_hash()[:12]
    assert keys == [task.key for task in vf.Taskset.of(same).resolve()]


def test_keys_do_not_depend_on_the_position() -> None:
    one, two = vf.TaskData(prompt="a"), vf.TaskData(prompt="b")
    keys = {task.data.prompt: task.key for task in vf.Taskset.of([one, two])}
    assert keys == {task.data.prompt: task.key for task in vf.Taskset.of([two, one])}


def test_given_tasks_are_not_changed() -> None:
    task: vf.Task = vf.Task(vf.TaskData(prompt="x"))
    assert vf.Taskset.of([vf.TaskData(prompt="y"), task]).resolve()[1].data.idx == 1
    assert task.data.idx is None
    assert repr(vf.Taskset.of([task]).take(1)) == "Taskset.of(1 tasks).take(1)"


def test_wrong_loads() -> None:
    class Nothing(vf.Taskset):
        def load(self) -> Any:
            return None

    class Rows(vf.Taskset):
        def load(self) -> Any:
            return [{"prompt": "x"}]

    class Missing(vf.Taskset):
        pass

    for cls, text in (
        (Nothing, r"load\(\) gave NoneType; return a list"),
        (Rows, "at position 0; give Task objects"),
        (Missing, r"has no load\(\); define"),
    ):
        with pytest.raises(TasksetError, match=text):
            cls().resolve()


def test_wrong_brackets() -> None:
    with pytest.raises(TasksetError, match=r"the order is Taskset\[Task, TasksetConfig\]"):

        class Wrong(vf.Taskset[vf.TasksetConfig, vf.Task]):  # type: ignore[type-var]
            pass


def test_repr_shows_settings_and_views() -> None:
    assert repr(Numbers().include(idx=["0:3"]).take(1)) == "Numbers().include(idx=['0:3']).take(1)"


# Infinite


def test_an_infinite_taskset_is_iterated_lazily() -> None:
    assert idx(islice(Forever(), 3)) == [0, 1, 2]
    assert built == [0, 1, 2]


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t.skip(3),
        lambda t: t.exclude(idx=["0:5"]),
        lambda t: t.include(idx=["5:"]),
        lambda t: t.include(idx=["::2"]),
        lambda t: t.include(names=["n1"]),
        lambda t: t.include(idx=["0:5"], names=["n9"]),
    ],
)
def test_a_run_must_bound_it(view: Callable[[Any], Any]) -> None:
    assert not view(Forever()).bounded
    with pytest.raises(TasksetError, match="is infinite; bound the run"):
        view(Forever()).resolve()
    with pytest.raises(TasksetError, match="cannot be shuffled; bound it first"):
        view(Forever()).shuffle()
    assert built == []


@pytest.mark.parametrize(
    ("view", "kept"),
    [
        (lambda t: t.take(2), [0, 1]),
        (lambda t: t.include(idx=["2:4", 6]), [2, 3, 6]),
        (lambda t: t.include(idx=["5:"]).take(2), [5, 6]),
        (lambda t: t.take(4).exclude(idx=[0]), [1, 2, 3]),
        (lambda t: t.exclude(idx=[3]).include(idx=["2:5"]), [2, 4]),
        (lambda t: t.select({"limit": 2}), [0, 1]),
    ],
)
def test_bounds_of_an_infinite_taskset(view: Callable[[Any], Any], kept: list[int]) -> None:
    assert idx(view(Forever()).resolve()) == kept


def test_shuffle_after_a_bound() -> None:
    assert sorted(idx(Forever().take(6).shuffle())) == list(range(6))
    chosen = Forever().select({"include": {"idx": ["0:6"]}, "shuffle": True, "limit": 3})
    assert set(idx(chosen)) < set(range(6))
    with pytest.raises(TasksetError, match="cannot be shuffled"):
        Forever().select({"shuffle": True, "limit": 3})
