"""In which scorer or agent an event of Inspect took place."""

from __future__ import annotations

from typing import Any

from vfnb.exchange.imports.fields import get, seconds

__all__ = ["Spans"]


class Spans:
    """The spans of a sample, which newer logs name in each event and older ones open and close by steps."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.scoring_began = 0.0
        self._above: list[list[tuple[str, str, str]]] = []
        spans: dict[str, tuple[str | None, str, str]] = {}
        steps: list[tuple[str, str, str]] = []
        for at, event in enumerate(get(record, "events", list, [])):
            event = event if isinstance(event, dict) else {}
            kind, name = str(event.get("type") or ""), str(event.get("name") or "")
            if event.get("event") == "span_begin":
                spans[str(event.get("id"))] = event.get("parent_id"), kind, name
            elif event.get("event") == "step" and event.get("action") == "begin":
                steps.append((f"step {at}", kind, name))
            elif event.get("event") == "step" and steps:
                steps.pop()
            above = [*steps, *self._chain(spans, event.get("span_id"))]
            self._above.append(above)
            if not self.scoring_began and any(kind in ("scorer", "scorers") for _, kind, _ in above):
                self.scoring_began = seconds(event.get("timestamp"), f"events[{at}].timestamp")

    @staticmethod
    def _chain(spans: dict[str, tuple[str | None, str, str]], id: Any) -> list[tuple[str, str, str]]:
        """From the outermost span to the one with this id."""
        found: list[tuple[str, str, str]] = []
        while isinstance(id, str) and id in spans and len(found) < len(spans):
            parent, kind, name = spans[id]
            found.append((id, kind, name))
            id = parent
        return found[::-1]

    def scorer(self, at: int) -> str | None:
        """The scorer in which event number `at` took place."""
        above = [name or kind for _, kind, name in self._above[at] if kind in ("scorer", "scorers")]
        return above[-1] if above else None

    def markers(self, at: int) -> dict[str, str]:
        """Of a call by an agent that another agent or a tool started: that it is a subagent, and which one."""
        above = self._above[at]
        agents = [place for place, (_, kind, _) in enumerate(above) if kind == "agent"]
        if not agents:
            return {}
        inner = agents[-1]
        if len(agents) < 2 and not any(kind == "tool" for _, kind, _ in above[:inner]):
            return {}
        return {"kind": "subagent", "agent": f"{above[inner][2]}-{above[inner][0]}"}
