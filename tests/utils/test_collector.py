"""The collector is calm while somebody asks for it, and as before afterwards."""

from __future__ import annotations

import gc
import weakref

import pytest

from vfnb.utils.collector import calm


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_the_last_one_out_restores_all() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with calm():
        inside = gc.get_threshold()
        assert inside[0] > before[0] and inside[1:] == before[1:]
        assert gc.get_freeze_count() > frozen
        with calm():
            assert gc.get_threshold() == inside
        assert gc.get_threshold() == inside
    assert gc.get_threshold() == before
    assert (
        gc.get_freeze_count() <= frozen
    )  # CPython 3.12 starts with some frozen; giving ours back gives those back too


def test_it_is_restored_after_an_error() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="oops"), calm():
        raise ValueError("oops")
    assert gc.get_threshold() == before


def test_new_cycles_are_collected_inside_and_old_ones_afterwards() -> None:
    old = Cycle()
    with calm():
        new = Cycle()
        seen = [weakref.ref(old), weakref.ref(new)]
        del old, new
        gc.collect()
        assert seen[1]() is None and seen[0]() is not None
    gc.collect()
    assert seen[0]() is None
