"""The table of late methods: each entry names a function that takes the object first."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from vfnb._late import LATE, late
from vfnb.trace import Branch, Trace


@pytest.mark.parametrize("name", sorted(LATE))
def test_each_entry_takes_the_object_first(name: str) -> None:
    module, _, attribute = LATE[name].partition(":")
    function = getattr(import_module(module), attribute)
    parameters = list(inspect.signature(function).parameters.values())
    assert parameters[0].name == name.split(".")[0].lower()
    assert parameters[0].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert all(
        other.default is not other.empty or other.kind is other.VAR_KEYWORD for other in parameters[1:]
    )
    assert attribute in import_module(module).__all__


def test_the_objects_reach_their_functions() -> None:
    trace = Trace()
    assert late("Trace.bundle", trace) == trace._repr_mimebundle_()
    assert late("Trace.text", trace) in trace._repr_mimebundle_()["text/plain"]
    assert trace.plot().text == late("Trace.plot", trace).text
    assert trace.graph().number_of_nodes() == 0
    assert "Branch.bundle" in LATE
    assert callable(Branch._repr_mimebundle_)
