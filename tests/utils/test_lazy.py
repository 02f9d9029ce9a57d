"""Rooms that load on first use: the same names for readers, checkers and at run time."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

LAZY = ["vfnb.agents", "vfnb.interception", "vfnb.runs"]


@pytest.mark.parametrize("name", LAZY)
def test_every_public_name_of_a_lazy_room_resolves(name: str) -> None:
    room = import_module(name)
    assert sorted(room.__all__) == room.__all__
    for public in room.__all__:
        assert getattr(room, public).__module__.startswith(name)


@pytest.mark.parametrize("name", LAZY)
def test_another_name_is_an_attribute_error(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = import_module(name).nothing


def test_a_light_module_of_a_lazy_room_loads_alone() -> None:
    code = "import sys, vfnb.interception.limits, vfnb.agents.base; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
