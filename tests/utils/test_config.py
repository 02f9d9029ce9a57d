"""Settings: errors name the key path and the nearest key; explicit values are told from defaults."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import Field

from vfnb.errors import ConfigError
from vfnb.utils.config import BaseConfig, build, nearest


class Inner(BaseConfig):
    tolerance: float = 0.0
    """How far off still counts."""


class Cat(BaseConfig):
    kind: Literal["cat"] = "cat"
    claws: int = 10


class Dog(BaseConfig):
    kind: Literal["dog"] = "dog"
    tail: int = 1


class Outer(BaseConfig):
    num_tasks: int = 100
    split: Literal["train", "test"] = "train"
    task: Inner = Inner()
    pet: Cat | Dog | None = Field(default=None, discriminator="kind")
    inners: list[Inner] = []
    table: dict[str, Inner] = {}
    idx: list[int | str] = []


def message(data: dict[str, object], path: str = "env.taskset") -> str:
    with pytest.raises(ConfigError) as caught:
        build(Outer, data, path=path)
    return str(caught.value)


def test_unknown_key_names_path_and_nearest_key() -> None:
    assert message({"num-task": 3}) == "env.taskset.num-task: unknown key; did you mean num_tasks?"


def test_nested_key_has_its_full_path() -> None:
    assert message({"task": {"tolerence": 1}}) == (
        "env.taskset.task.tolerence: unknown key; did you mean tolerance?"
    )


def test_key_of_another_level_is_pointed_to() -> None:
    assert message({"tolerance": 1}).endswith("did you mean env.taskset.task.tolerance?")


def test_key_inside_a_union_has_no_tag_in_its_path() -> None:
    assert message({"pet": {"kind": "dog", "tial": 2}}) == (
        "env.taskset.pet.tial: unknown key; did you mean tail?"
    )


def test_key_inside_a_list() -> None:
    assert message({"inners": [{}, {"tolerenc": 1}]}).startswith("env.taskset.inners.1.tolerenc: unknown key")


def test_key_inside_a_table_of_free_names() -> None:
    assert message({"table": {"mine": {"tolerenc": 1}}}) == (
        "env.taskset.table.mine.tolerenc: unknown key; did you mean tolerance?"
    )


def test_one_key_is_one_line_whatever_its_type_could_be() -> None:
    assert message({"idx": [1.5]}) == (
        "env.taskset.idx.0: input should be a valid integer, got a number with a fractional part (got 1.5), "
        "or input should be a valid string (got 1.5)"
    )


def test_wrong_value_is_shown() -> None:
    text = message({"num_tasks": "ten", "split": "valid"})
    assert "env.taskset.num_tasks: input should be a valid integer" in text
    assert "(got 'ten')" in text
    assert "env.taskset.split: input should be 'train' or 'test' (got 'valid')" in text


def test_without_any_similar_key_the_known_ones_are_listed() -> None:
    assert "known keys: tolerance" in message({"task": {"zzz": 1}})


def test_constructor_raises_the_same_error() -> None:
    with pytest.raises(ConfigError, match=r"num_task: unknown key of Outer; did you mean num_tasks\?"):
        Outer(num_task=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"^task\.tolerence: unknown key"):
        Outer(task={"tolerence": 1})  # type: ignore[arg-type]


def test_required_key() -> None:
    class Needs(BaseConfig):
        path: str

    with pytest.raises(ConfigError, match="path: required of Needs, but not given"):
        Needs()  # type: ignore[call-arg]


def test_mapping_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="expected Outer or a mapping, got int"):
        build(Outer, 3)  # type: ignore[arg-type]


def test_explicit_value_equal_to_the_default_stays_explicit() -> None:
    assert Outer(num_tasks=100).explicit() == {"num_tasks": 100}
    assert Outer().explicit() == {}
    assert Outer(task=Inner(tolerance=0.0)).explicit() == {"task": {"tolerance": 0.0}}


def test_updated_keeps_what_was_explicit() -> None:
    config = Outer(num_tasks=100).updated(split="test")
    assert config.explicit() == {"num_tasks": 100, "split": "test"}
    with pytest.raises(ConfigError, match="did you mean split"):
        config.updated(spilt="test")


def test_documentation_is_under_the_field() -> None:
    assert Inner.model_fields["tolerance"].description == "How far off still counts."


@pytest.mark.parametrize(
    ("word", "match"), [("num-task", "num_tasks"), ("NUM_TASKS", "num_tasks"), ("temprature", None)]
)
def test_nearest(word: str, match: str | None) -> None:
    assert nearest(word, ["num_tasks", "num_rollouts", "split"]) == match
