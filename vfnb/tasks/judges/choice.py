"""Reading a verdict out of a judge's free text, or saying that there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vfnb.tasks.judges.texts import without_thoughts

__all__ = ["parse_judge_choice"]

_MARKER = re.compile(
    r"(?:final\s+(?:judge?ment|verdict|answer|decision|grade)|verdict|judge?ment)\s*(?:is)?\s*[:=]\s*",
    re.IGNORECASE,
)
_TRIM = " \t\r\n*_`\"'.,;:!()[]{}<>#"
_NEGATION = re.compile(r"(?:\bnot|n't|\bnever|\bneither|\bhardly)\s+(?:\w+\s+)?$", re.IGNORECASE)


def parse_judge_choice(text: str, choices: Sequence[str]) -> str | None:
    """The one of `choices` that a judge's reply means, or None if it means none or is ambiguous.

    Looked for in this order, ignoring case and markup: after the last marker such as `Final verdict:`; in the
    last `\\boxed{}`; a line that is nothing but a choice; the only choice that the text mentions as a whole word
    and does not negate. Lines or mentions that contradict each other give None.
    """
    text = without_thoughts(text)
    known = {choice.casefold(): choice for choice in choices}
    words = "|".join(re.escape(choice) for choice in sorted(choices, key=len, reverse=True))
    mention = re.compile(rf"(?<!\w)(?:{words})(?!\w)", re.IGNORECASE)
    for after in reversed(_MARKER.split(text)[1:]):
        found = _leading(after.partition("\n")[0], mention)
        if found is not None:
            return known[found.casefold()]
    boxed = [inner.strip(_TRIM).casefold() for inner in re.findall(r"\\boxed\{([^{}]*)\}", text)]
    named = [inner for inner in boxed if inner in known]
    if named:
        return known[named[-1]]
    lines = {line.strip(_TRIM).casefold() for line in text.splitlines()} & set(known)
    if lines:
        return known[lines.pop()] if len(lines) == 1 else None
    found_at = list(mention.finditer(text))
    if len({match.group().casefold() for match in found_at}) != 1:
        return None
    if any(_NEGATION.search(text[: match.start()]) for match in found_at):
        return None
    return known[found_at[0].group().casefold()]


def _leading(text: str, mention: re.Pattern[str]) -> str | None:
    """The choice that a line starts with; a box that comes later counts if no choice does."""
    start = text.lstrip(_TRIM)
    match = mention.match(start)
    if match is not None:
        return match.group()
    boxed = [inner.strip(_TRIM) for inner in re.findall(r"\\boxed\{([^{}]*)\}", text)]
    full = [inner for inner in boxed if mention.fullmatch(inner)]
    return full[-1] if full else None
