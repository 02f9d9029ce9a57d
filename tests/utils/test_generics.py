"""What a class put into the brackets of its generic base."""

from __future__ import annotations

from typing import Generic, TypeVar

from typing_extensions import TypeVar as DefaultTypeVar

from vfnb.utils.generics import type_argument, type_arguments

A = DefaultTypeVar("A", default=int)
B = DefaultTypeVar("B", default=str)
C = TypeVar("C")


class Base(Generic[A, B]):
    pass


class One(Base[bytes]):
    pass


class Open(Base[C, float], Generic[C]):
    pass


class Closed(Open[list[int]]):
    pass


class Parent(Base[bytes, bytes]):
    pass


class Both(Parent, Base[bool, bool]):
    pass


class Named(Base["Late", "Late"]):
    pass


class Late:
    pass


def test_missing_arguments_take_their_defaults() -> None:
    assert type_arguments(One, Base) == (bytes, str)
    assert type_arguments(Base, Base) == (int, str)


def test_arguments_pass_through_intermediate_generics() -> None:
    assert type_arguments(Closed, Base) == (list[int], float)


def test_the_nearest_class_that_names_the_base_wins() -> None:
    assert type_arguments(Both, Base) == (bool, bool)


def test_forward_names_are_resolved_in_the_module() -> None:
    assert type_arguments(Named, Base) == (Late, Late)


def test_open_parameter_gives_the_default() -> None:
    assert type_argument(Open, Base, 0, default=object) is object
    assert type_argument(Open, Base, 1, default=object) is float
