"""Anything becomes a JSON value that UTF-8 can hold."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from vfnb.utils.plain import decode_json, encodable, plain


class Colour(enum.Enum):
    RED = "red"


class Model(BaseModel):
    value: Any = None


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    def tolist(self) -> list[int]:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.arange(3), [0, 1, 2]),
        (np.float32(0.5), 0.5),
        ({1: {2}, None: (3,)}, {"1": [2], "None": [3]}),
        (b"a\xff", "a\\xff"),
        ("a\ud83d", "a\\ud83d"),
        ({"\ud800": "é"}, {"\\ud800": "é"}),
        (Colour.RED, "red"),
        (Path("a/b"), "a/b"),
        (datetime.date(2020, 1, 2), "2020-01-02"),
        (Model(value=1), {"value": 1}),
        (Model(value=np.zeros(1)), {"value": [0.0]}),
        (Point(1, Point(2, None)), {"x": 1, "y": {"x": 2, "y": None}}),
        (Broken(), "<Broken>"),
        (10**30, 10**30),
    ],
)
def test_the_nearest_value(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_what_has_no_form_is_shown() -> None:
    assert plain(object()).startswith("<object object")
    assert len(plain({"f": lambda: "x" * 5000})["f"]) < 2100
    assert math.isnan(plain([math.nan])[0])


def test_endless_and_deep_values_end() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    assert plain(loop) == ["[[...], [...]]"] * 2
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    json.dumps(plain(deep))


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters()) | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters()) | st.integers(), inner) | st.tuples(inner)
    ),
)


@given(anything)
def test_whatever_it_is_it_can_be_written(value: Any) -> None:
    json.dumps(plain(value), ensure_ascii=False).encode()


@given(st.text(st.characters()))
def test_text_that_can_be_written_stays(text: str) -> None:
    encodable(text).encode()
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert encodable(text) == text


def test_json_that_is_nested_too_deeply_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_json(b"[" * 200_000 + b"]" * 200_000)
