"""Tasks and tasksets as text and html, through the attributes that they share."""

from __future__ import annotations

from itertools import islice
from typing import Any

from vfnb.lab.html import MAX_MESSAGE, MAX_ROWS, Page, banner, esc, pre, table
from vfnb.lab.messages import full_text
from vfnb.lab.text import columns, lines
from vfnb.lab.words import clip, listing, one_line
from vfnb.types import resolve_messages

__all__ = ["task_bundle", "task_text", "taskset_bundle", "taskset_text"]

_HEAD_TASKS = 8


def _fields(record: Any, without: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """What a pydantic record says beyond its empty values, each on one line."""
    if record is None:
        return []
    names = [*type(record).model_fields, *(getattr(record, "model_extra", None) or {})]
    found = []
    for name in names:
        value = getattr(record, name)
        if name in without or value is None or value in ("", [], {}, ()):
            continue
        shown = value.model_dump() if hasattr(value, "model_dump") else value
        found.append((name, one_line(shown, 300)))
    return found


def _prompt(data: Any) -> str:
    """The prompt as text, role by role if it has several messages."""
    messages = resolve_messages(data.prompt)
    if not messages:
        return "no prompt: the caller opens the conversation"
    if len(messages) == 1:
        return full_text(messages[0])
    return "\n".join(f"{message.role}: {full_text(message)}" for message in messages)


def _name(task: Any) -> str:
    data = task.data
    name = getattr(data, "name", None)
    idx = getattr(data, "idx", None)
    return listing(
        [
            f"{type(task).__name__} {one_line(name, 60) if name else ''}".rstrip(),
            f"idx {idx}" if idx is not None else "",
        ]
    )


def _key(task: Any) -> str:
    return one_line(str(getattr(task, "key", "")), 60)


def _data(task: Any) -> list[tuple[str, str]]:
    return _fields(task.data, ("prompt", "name", "idx"))


def task_text(task: Any) -> str:
    """The text twin, at most 20 lines."""
    prompt = clip(_prompt(task.data), MAX_MESSAGE).splitlines()
    cut = [f"  … {len(prompt) - 8} more lines; task.data.prompt has all"] if len(prompt) > 8 else []
    data = [f"{name}: {value}" for name, value in _data(task)]
    return lines(
        [listing([_name(task), f"key {_key(task)}" if _key(task) else ""]), "prompt:"],
        [f"  {line}" for line in prompt[:8]],
        cut,
        data,
        rest="task.data",
    )


def task_bundle(task: Any) -> dict[str, str]:
    """Text and html."""
    page = Page("task")
    key = f" key {esc(_key(task))}" if _key(task) else ""
    page.add(f"<div><b>{esc(_name(task))}</b>{key}</div>")
    page.add(pre(clip(_prompt(task.data), MAX_MESSAGE)))
    fields = _data(task)
    if fields:
        cut = f"{MAX_ROWS} of {len(fields)} fields shown; task.data has all" if len(fields) > MAX_ROWS else ""
        rows = [[esc(one_line(name, 60)), esc(value)] for name, value in fields[:MAX_ROWS]]
        page.add(table(["field", "value"], rows, caption=cut))
    return {"text/plain": task_text(task), "text/html": page.close("task.data")}


def _head(taskset: Any) -> tuple[list[Any], bool, str]:
    """The first tasks, whether there are more, and what went wrong when loading them."""
    try:
        first = list(islice(iter(taskset), _HEAD_TASKS + 1))
    except Exception as error:  # a display shows what is wrong instead of raising
        return [], False, f"{type(error).__name__}: {one_line(str(error), 300)}"
    return first[:_HEAD_TASKS], len(first) > _HEAD_TASKS, ""


def _told(taskset: Any) -> str:
    return f"Taskset {type(taskset).__name__}" + (
        " (infinite)" if getattr(taskset, "INFINITE", False) else ""
    )


def _rows(tasks: list[Any]) -> list[list[str]]:
    return [
        [
            str(getattr(task.data, "idx", "")),
            one_line(str(getattr(task.data, "name", None) or ""), 30),
            one_line(_prompt(task.data), 60),
        ]
        for task in tasks
    ]


def taskset_text(taskset: Any) -> str:
    """The text twin: the class, its configuration and its first tasks."""
    tasks, more, trouble = _head(taskset)
    config = [f"{name}: {value}" for name, value in _fields(getattr(taskset, "config", None))[:8]]
    end = "" if trouble else "more follow" if more else f"{len(tasks)} tasks"
    return lines(
        [_told(taskset), f"cannot load: {trouble}" if trouble else ""],
        config,
        columns(["idx", "name", "prompt"], _rows(tasks), widest=70) if tasks else [],
        [end],
        rest="list(taskset)",
    )


def taskset_bundle(taskset: Any) -> dict[str, str]:
    """Text and html."""
    page = Page("taskset")
    page.add(f"<div><b>{esc(_told(taskset))}</b></div>")
    tasks, more, trouble = _head(taskset)
    page.add(banner([f"cannot load: {trouble}"] if trouble else []))
    config = _fields(getattr(taskset, "config", None))[:MAX_ROWS]
    if config:
        page.add(table(["config", "value"], [[esc(name), esc(value)] for name, value in config]))
    if tasks:
        end = (
            f"the first {len(tasks)} tasks; list(taskset.take(n)) has more" if more else f"{len(tasks)} tasks"
        )
        page.add(
            table(["idx", "name", "prompt"], [[esc(c) for c in row] for row in _rows(tasks)], caption=end)
        )
    return {"text/plain": taskset_text(taskset), "text/html": page.close("list(taskset)")}
