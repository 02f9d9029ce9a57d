"""What a judge sees of a rollout and of its task, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.types import AssistantMessage, Message, Messages, TextContentPart, ToolMessage
from vfnb.utils.config import nearest

if TYPE_CHECKING:
    from vfnb.tasks.data import TaskData
    from vfnb.tasks.judges.config import JudgeView
    from vfnb.trace import Branch, Trace

__all__ = ["check_fields", "question_of", "reference_of", "seen"]


def seen(trace: Trace, view: JudgeView) -> str:
    """The part of a rollout that a judge gets; `""` if the agent said nothing in it."""
    if view == "last_reply":
        return trace.last_reply.strip()
    main, branches = trace.main, trace.branches
    shown = [] if main is None else [main]
    if view == "full_trace" and main is not None:
        shown += [branch for branch in branches if branch.id != main.id]
    said = any(_said(branch.messages) for branch in shown)
    parts = [_branch(branch, number, len(shown)) for number, branch in enumerate(shown)]
    if trace.answer is not None and trace.answer.strip():
        last = trace.messages[-1] if main is not None else None
        if not isinstance(last, AssistantMessage) or last.text.strip() != trace.answer.strip():
            said = True
            parts.append(f"# Final answer\n\n{trace.answer.strip()}")
    return "\n\n".join(parts) if said else ""


def _branch(branch: Branch, number: int, count: int) -> str:
    if count == 1:
        return _text(branch.messages)
    cause = "" if branch.cause is None else f" ({branch.cause.cause})"
    title = "# Main line" if number == 0 else f"# Branch {number}{cause}"
    return f"{title}\n\n{_text(branch.messages)}"


def _said(messages: Messages) -> bool:
    return any(
        isinstance(message, AssistantMessage) and (message.text.strip() or message.tool_calls)
        for message in messages
    )


def _text(messages: Messages) -> str:
    names = {
        call.id: call.name
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    return "\n\n".join(_one(message, names) for message in messages)


def _one(message: Message, tools: dict[str, str]) -> str:
    title = f"## {message.role}"
    lines = [_content(message)]
    if isinstance(message, ToolMessage):
        title += f" {tools.get(message.tool_call_id, message.tool_call_id)}" + (
            " (error)" if message.is_error else ""
        )
    if isinstance(message, AssistantMessage):
        lines += [f"Tool call: {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([title, *(line for line in lines if line)])


def _content(message: Message) -> str:
    content: Any = message.content
    if not isinstance(content, list):
        return content or ""
    return "\n".join(part.text if isinstance(part, TextContentPart) else f"[{part.type}]" for part in content)


def question_of(task: TaskData, field: str) -> str:
    """What the task asks."""
    return task.prompt_text if not field else _joined(_field(task, field, "question_field"))


def reference_of(task: TaskData, field: str) -> str:
    """The reference answer as text, one item a line if there are several; `""` without a field."""
    return "" if not field else _joined(_field(task, field, "answer_field"))


def check_fields(kind: type[TaskData], question_field: str, answer_field: str) -> None:
    """Refuse fields that the records do not have.

    Raises:
        ConfigError: with the nearest field.
    """
    for setting, field in (("question_field", question_field), ("answer_field", answer_field)):
        if field and field not in kind.model_fields and not hasattr(kind, field):
            match = nearest(field, kind.model_fields)
            hint = f"did you mean {match!r}?" if match else f"fields: {', '.join(kind.model_fields)}"
            raise ConfigError(f"{setting}={field!r}: {kind.__name__} has no such field; {hint}")


def _field(task: TaskData, field: str, setting: str) -> Any:
    value = getattr(task, field, None)
    if value is None or value in ("", [], ()):
        raise ConfigError(f"{setting}={field!r}: task {task.name or task.id or task.idx} has no value there")
    return value


def _joined(value: Any) -> str:
    if isinstance(value, list | tuple | set | frozenset):
        items = [str(item) for item in value]
        return items[0] if len(items) == 1 else "\n".join(f"- {item}" for item in items)
    return str(value)
