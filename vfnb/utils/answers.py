"""Finding the answer in what an agent left behind: a file, a box, a number."""

from __future__ import annotations

import math
import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from vfnb.errors import MissingFile

if TYPE_CHECKING:
    from vfnb.runtimes import Runtime
    from vfnb.trace import Trace

__all__ = [
    "extract_boxed_answer",
    "extract_number",
    "read_answer_file_or_last_reply",
    "verify_numeric_answer",
    "visible",
]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_NUMBER = re.compile(
    r"(?<![\w.])[-+\u2212]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d))(?:[eE][-+]?\d+)?"
)


async def read_answer_file_or_last_reply(runtime: Runtime, path: str | PurePath, trace: Trace) -> str:
    """The text of an answer file without white space around it, or the last reply if it is missing or empty.

    For prompts that allow both. Where the file is demanded, use `runtime.read`: a missing file must then not be
    hidden by the last reply.

    Raises:
        RuntimeFault: the box failed, or the path is not a readable file.
    """
    try:
        data = await runtime.read(path)
    except MissingFile:
        return trace.last_reply
    return data.decode("utf-8-sig", "replace").strip() or trace.last_reply


def visible(text: str | None) -> str:
    """A reply without the reasoning that some models put in front in `<think>` tags; `""` if it never ends."""
    if not text:
        return ""
    _, closed, rest = text.rpartition("</think>")
    return "" if not closed and "<think>" in text else rest


def extract_boxed_answer(text: str, strict: bool = False) -> str:
    r"""The content of the last `\boxed{...}`, braces balanced; escaped ones do not count.

    Args:
        text: a reply.
        strict: without a complete box give `""`; otherwise the whole text.
    """
    ends = [box.end() for box in _BOX.finditer(text)]
    if ends:
        depth = 1
        for brace in _BRACE.finditer(text, ends[-1]):
            depth += {"{": 1, "}": -1}.get(brace.group(), 0)
            if depth == 0:
                return text[ends[-1] : brace.start()]
    return "" if strict else text


def extract_number(text: str) -> float | None:
    """The last number in a text; thousands may be parted by commas. None if there is none, or it is not finite."""
    found = _NUMBER.findall(text)
    if not found:
        return None
    number = float(found[-1].replace(",", "").replace("\u2212", "-"))
    return number if math.isfinite(number) else None


def verify_numeric_answer(response: str | None, answer: str | float, *, tolerance: float = 1e-6) -> float:
    """1.0 if the number in the last box, else the last number of the reply, is the reference's; 0.0 if not.

    Args:
        response: a reply; text in `<think>` tags is left out.
        answer: the reference, a number or a text whose last number it is.
        tolerance: allowed difference, relative to the reference where that is larger than 1.

    Raises:
        ValueError: the reference has no number: that is the task's defect, not a wrong answer.
    """
    wanted = float(answer) if isinstance(answer, int | float) else extract_number(answer)
    if wanted is None or not math.isfinite(wanted):
        raise ValueError(f"the reference answer {answer!r} has no number")
    text = visible(response)
    given = extract_number(extract_boxed_answer(text, strict=True) or text)
    return float(given is not None and abs(given - wanted) <= tolerance * max(1.0, abs(wanted)))
