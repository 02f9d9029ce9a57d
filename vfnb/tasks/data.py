"""The immutable record of one task."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, field_validator

from vfnb.errors import TasksetError, VfnbError
from vfnb.types import Messages, resolve_messages
from vfnb.utils.config import Checked
from vfnb.utils.ids import canonical_json, digest

__all__ = ["NetworkPolicy", "TaskData", "TaskResources", "TaskTimeout"]


class _Frozen(Checked):
    model_config = ConfigDict(frozen=True)
    error_type: ClassVar[type[VfnbError]] = TasksetError


class TaskTimeout(_Frozen):
    """Limits of this task's stages in seconds; None leaves the run's own."""

    setup: float | None = Field(default=None, gt=0)
    """Task and harness setup; running over it is an error."""
    agent: float | None = Field(default=None, gt=0)
    """The agent program; running over it is a stop, and the rollout is scored."""
    finalize: float | None = Field(default=None, gt=0)
    """Finalize; running over it is an error."""
    scoring: float | None = Field(default=None, gt=0)
    """All metrics, rewards and judges; running over it is an error."""


class TaskResources(_Frozen):
    """What the task needs of its runtime; None leaves the runtime's own."""

    cpu: float | None = Field(default=None, gt=0)
    """Cores."""
    memory: float | None = Field(default=None, gt=0)
    """GiB of memory."""
    gpu: str | None = None
    """Kind and number, as in `H100:2`."""
    disk: float | None = Field(default=None, gt=0)
    """GiB of disk."""


class NetworkPolicy(_Frozen):
    """Which hosts programs of the task may reach."""

    allow: list[str] = ["*"]
    """Host patterns; `*` is everything, an empty list is no network."""
    block: list[str] = []
    """Host patterns that stay closed although `allow` names them."""

    @property
    def restricts(self) -> bool:
        """Whether it closes anything."""
        return self.allow != ["*"] or bool(self.block)


class TaskData(_Frozen):
    """Inputs and metadata of one task. Subclass it to add fields such as the reference answer."""

    idx: int | None = Field(default=None, ge=0, lt=2**63)
    """Position in the taskset; set by loading unless given."""
    id: str | None = None
    """The dataset's own identifier."""
    key: str | None = None
    """Identity for resuming, unique in the taskset; by default the content hash."""
    name: str | None = None
    """Short name for tables."""
    description: str | None = None
    """For people; no model sees it."""
    prompt: str | Messages | None = None
    """What opens the conversation; None when an external caller opens it."""
    system_prompt: str | None = None
    """Instructions that come before the prompt; the taskset's if not given."""
    image: str | None = None
    """Container image in which the task must run."""
    workdir: str | None = None
    """Working folder: absolute in a container, relative to the box anywhere; None is the image's or box's own."""
    network: NetworkPolicy = NetworkPolicy()
    """Reachable hosts."""
    artifacts: list[str] = []
    """Files and folders carried from the agent's box to a fresh one for isolated scoring, relative to the working
    folder; absolute ones in containers only."""
    timeout: TaskTimeout = TaskTimeout()
    """Limits of the stages."""
    resources: TaskResources = TaskResources()
    """Needs of the runtime."""

    @property
    def prompt_text(self) -> str:
        """The prompt's text parts, joined by blank lines between messages; images are not in it."""
        return "\n\n".join(message.text for message in resolve_messages(self.prompt))

    @field_validator("workdir", "artifacts")
    @classmethod
    def _stays_inside(cls, value: str | list[str] | None) -> str | list[str] | None:
        for path in [value] if isinstance(value, str) else value or ():
            if not path or ".." in PurePosixPath(path).parts or not path.isprintable():
                raise ValueError(f"{path!r} is no path inside the box; leave out `..` and control characters")
        return value

    def content_hash(self) -> str:
        """32 hex digits over all fields but `idx` and `key`: what the task is, not where it stands.

        Raises:
            TasksetError: a field has no JSON form.
        """
        try:
            data: dict[str, Any] = self.model_dump(mode="json", exclude={"idx", "key"}, exclude_none=True)
        except ValueError as error:  # pydantic's and unicode errors are ones too
            raise TasksetError(f"{self._unfit() or type(self).__name__}: {error}") from error
        return digest(canonical_json(data))

    def _unfit(self) -> str | None:
        """The field that has no JSON form, and the fix."""
        for name in type(self).model_fields:
            try:
                self.model_dump(mode="json", include={name})
            except ValueError:
                kind = type(getattr(self, name)).__name__
                return (
                    f"{type(self).__name__}.{name} ({kind}) cannot be written as JSON; give numbers, text, "
                    "lists and dicts, or load what it stands for in setup()"
                )
        return None
