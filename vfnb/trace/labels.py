"""Labels: what a reader of a trace found out about it, by name, as marks of a run's store."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable

from vfnb.errors import TraceError

__all__ = ["LabelValue", "checked_label", "label_text", "read_label", "read_labels"]

LabelValue = bool | int | float | str

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def checked_label(name: str, value: LabelValue | None) -> None:
    """Refuse what cannot be a label: its name becomes a column of frames.

    Raises:
        TraceError: the name is no identifier, or the value no truth value, number or text.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TraceError(
            f"label {name!r}: a label's name has letters, digits and underscores, as in `good_reasoning`"
        )
    if value is not None and not isinstance(value, bool | int | float | str):
        raise TraceError(f"label {name}={value!r:.80}: give True, False, a number or a text")
    if isinstance(value, float) and not math.isfinite(value):
        raise TraceError(f"label {name}={value}: give a finite number")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise TraceError(
            f"label {name}: a whole number of a label has at most 64 bits; give a text or a float"
        )


def label_text(name: str, value: LabelValue | None) -> str:
    """A label as the text of a mark: JSON with `name` and `value`; null takes the label away."""
    return json.dumps({"name": name, "value": value}, allow_nan=False)


def read_label(text: str) -> tuple[str, LabelValue | None]:
    """Name and value of a mark's text."""
    entry = json.loads(text)
    return str(entry["name"]), entry["value"]


def read_labels(texts: Iterable[str]) -> dict[str, LabelValue]:
    """The labels that marks, oldest first, leave: the last one of a name counts."""
    found: dict[str, LabelValue] = {}
    for text in texts:
        name, value = read_label(text)
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found
