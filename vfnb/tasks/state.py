"""The mutable state of one rollout."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["State"]


class State(BaseModel):
    """Values shared by the hooks and tools of one rollout, as `trace.state`. Give every field a default.

    Fields of a subclass are checked on assignment; other names are kept as they are.
    """

    model_config = ConfigDict(extra="allow", validate_assignment=True, use_attribute_docstrings=True)
