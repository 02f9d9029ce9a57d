"""What a flag that does not exist was meant to be."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from vfnb.runs.layers import flag
from vfnb.runs.layouts import foreign
from vfnb.utils.config import all_keys, nearest

__all__ = ["unknown_flags"]


def unknown_flags(words: Sequence[str], flags: type[BaseModel], switches: Sequence[str]) -> str:
    """A line for each flag that does not exist, or for the first word that belongs to none.

    Args:
        words: what was not understood, in order.
        flags: the model whose fields are the flags.
        switches: more flags.
    """
    wrong = [word for word in words if word.startswith("-")]
    if not wrong:
        return (
            f"{words[0]}: belongs to no flag; the taskset comes first, files come after @, "
            "and switches take no value (--fresh, --no-fresh)"
        )
    known = [*all_keys(flags), *switches, "help"]
    return "\n".join(_line(word.partition("=")[0], known) for word in wrong)


def _line(word: str, known: Sequence[str]) -> str:
    shown = word.replace("_", "-")
    if not word.startswith("--"):
        return f"{word}: unknown flag; the short ones are -m, -n, -r, -c, -s and -h"
    name = word.removeprefix("--no-").removeprefix("--").replace("-", "_")
    if name in known:
        return f"{shown}: only switches have a --no- form; give {flag(name.split('.'))} a value"
    match = _nearest(name, known)
    if match is not None and match.rpartition(".")[2] == name.rpartition(".")[2]:
        return f"{shown}: unknown flag; did you mean {flag(match.split('.'))}?"
    if advice := foreign(tuple(name.split("."))):
        return f"{shown}: {advice}"
    hint = f"did you mean {flag(match.split('.'))}?" if match else "--help lists them"
    return f"{shown}: unknown flag; {hint}"


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """A key of that name elsewhere, else a similar one beside it, else a similar one anywhere."""
    table, _, last = name.rpartition(".")
    elsewhere: dict[str, str] = {}
    for key in known:
        if key.startswith("env.") == table.startswith("env"):
            elsewhere.setdefault(key.rpartition(".")[2], key)
    if last in elsewhere:
        return elsewhere[last]
    beside = [key for key in known if key.rpartition(".")[0] == table]
    begun = [key for key in beside if key.startswith(name)]
    match = (
        begun[0].rpartition(".")[2] if begun else nearest(last, [key.rpartition(".")[2] for key in beside])
    )
    if match is not None:
        return f"{table}.{match}" if table else match
    match = nearest(last, elsewhere)
    return elsewhere[match] if match is not None else nearest(name, known)
