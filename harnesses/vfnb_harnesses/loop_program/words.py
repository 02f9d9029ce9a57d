"""What tool loops say and read: summaries, bounded texts, arguments, edits. Plain functions without state."""

from __future__ import annotations

import itertools
import json

TYPE_CHECKING = False  # importing typing would cost start time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "LARGEST_FILE",
    "SUMMARISE",
    "arguments",
    "bounded",
    "check",
    "decoded",
    "excerpt",
    "replaced",
    "report",
    "resumed",
    "unseen",
]

LARGEST_FILE = 20_000_000  # bytes of a file that `read` and `edit` look at
SUMMARISE = (
    "The conversation is about to be cut to save space. Write a summary from which the work can go on without it: "
    "the goal, what was done and found out, the files that matter with their paths, what failed, and what is to be "
    "done next. Answer with text only and call no tool."
)


def resumed(summary: str) -> str:
    """The message that takes the place of a conversation that was cut."""
    begin = "The conversation up to here was cut to save space. Your own summary of it:"
    return f"{begin}\n\n{summary}\n\nGo on from here."


def unseen(steps: list[tuple[str, str, str]], limit: int) -> str:
    """The last step in few words, when it is what made the prompt too long. Steps are (tool, arguments, result)."""
    told = [
        f"\n\n{name}({bounded(given, limit)}) gave:\n{bounded(result, limit)}"
        for name, given, result in steps
    ]
    return "".join(["\n\nIts last step did not fit. You called:", *told]) if told else ""


def bounded(text: str, limit: int, lost: int = 0) -> str:
    """At most about `limit` characters: the start and the end, and between them how much is left out.

    Args:
        lost: characters that are missing in the middle already.
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    whole = len(text) + lost
    cut = f"\n[... {whole - limit} of {whole} characters left out ...]\n"
    return text[:head] + cut + text[len(text) - (limit - head) :]


def arguments(text: str) -> dict[str, Any]:
    """The arguments of a tool call.

    Raises:
        ValueError: they are not a JSON object; the message is for the model.
    """
    try:
        value = json.loads(text) if text.strip() else {}
    except ValueError as error:
        raise ValueError(f"the arguments are not valid JSON ({error}); send one JSON object") from None
    if not isinstance(value, dict):
        raise ValueError(f"the arguments must be one JSON object, not {text[:80]}")
    return value


def check(schema: dict[str, Any], values: dict[str, Any]) -> None:
    """Refuse arguments that a flat schema does not have, of the wrong type, or missing.

    Raises:
        ValueError: what is wrong, for the model.
    """
    kinds: dict[str, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    known = schema["properties"]
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"there is no argument {name!r}; there are {', '.join(known)}")
        kind = known[name]["type"]
        if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean"):
            raise ValueError(f"{name} must be of type {kind}, not {str(value)[:80]!r}")
    missing = [name for name in schema.get("required", ()) if name not in values]
    if missing:
        raise ValueError(f"missing argument {missing[0]!r}")


def report(output: str, status: int | None, late: float | None, limit: int, lost: int = 0) -> str:
    """What a command did: its output and how it ended.

    Args:
        late: the time limit in seconds that it ran over, or None.
        lost: as for `bounded`.
    """
    text = bounded(output.rstrip("\n"), limit, lost) or "(no output)"
    if late is not None:
        return f"{text}\n[ended after {late:g} s, its time limit]"
    return text if status == 0 else f"{text}\n[exit status {status}]"


def decoded(data: bytes, path: str) -> str:
    """A text file's content. Raises ValueError if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a UTF-8 text file; look at it with a command") from None


def excerpt(text: str, offset: int, count: int | None, limit: int) -> str:
    """`count` lines from line `offset` on (from 1), as many as fit into `limit` characters."""
    lines = text.splitlines(keepends=True)
    first = max(offset, 1) - 1
    last = len(lines) if count is None else min(len(lines), first + max(count, 0))
    sizes = itertools.accumulate(len(line) for line in lines[first:last])
    shown = lines[first : first + max(sum(size <= limit for size in sizes), 1)][: last - first]
    end = first + len(shown)
    if first == 0 and end == len(lines):
        return bounded(text, limit) or "(empty file)"
    if not shown:
        return f"[the file has {len(lines)} lines]"
    more = f"; read on with offset={end + 1}" if end < len(lines) else ""
    note = f"[lines {first + 1} to {end} of {len(lines)}{more}]"
    return bounded("".join(shown), limit).rstrip("\n") + "\n" + note


def replaced(text: str, values: dict[str, Any]) -> tuple[str, str]:
    """An edit: the new text of the file, and what to tell the model.

    Raises:
        ValueError: the old text is not there, or not exactly once.
    """
    path, old, new = values["path"], values["old"], values["new"]
    found = text.count(old) if old else 0
    if not old or old == new:
        raise ValueError("old must be some text of the file, and new must differ from it")
    if not found:
        raise ValueError(f"old is not in {path}, character for character; read the file again")
    if found > 1 and not values.get("all"):
        raise ValueError(f"old is {found} times in {path}; give more of its surroundings, or all=true")
    return text.replace(old, new), f"edited {path} in {found} place{'s' if found > 1 else ''}"
