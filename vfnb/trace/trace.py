"""`Trace`: everything that one rollout left behind, as one pydantic model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticSerializationError, to_jsonable_python

from vfnb._late import late
from vfnb.trace.branches import Branch
from vfnb.trace.calls import ErrorInfo, ModelCall
from vfnb.trace.graph import MessageGraph
from vfnb.trace.judging import JudgeCall
from vfnb.trace.labels import LabelValue, checked_label, label_text
from vfnb.trace.nodes import NodeList
from vfnb.trace.rewrites import Rewritten, rewrites
from vfnb.types import Messages, ToolCall, Usage
from vfnb.utils.plain import plain

if TYPE_CHECKING:
    from vfnb.trace.links import Link
    from vfnb.trace.samples import Sample

__all__ = ["END_STATES", "LIMIT_STOPS", "Reward", "Span", "TaskInfo", "Trace"]

END_STATES = ("completed", "stopped", "error", "cancelled", "dropped")
LIMIT_STOPS = frozenset(
    {
        "context_length",
        "max_cost",
        "max_input_tokens",
        "max_output_tokens",
        "max_tokens",
        "max_total_tokens",
        "max_turns",
        "timeout",
    }
)
"""Stop conditions that cut a rollout short."""


class TaskInfo(BaseModel):
    """Which task the rollout was about, with its data as it was."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    idx: int = 0
    """Load position in the taskset unless the task gave its own."""
    name: str | None = None
    key: str = ""
    """Stable name across runs."""
    data: dict[str, Any] = {}

    @field_serializer("data", when_used="json")
    def _plain_data(self, data: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any]
        try:
            found = to_jsonable_python(data)
        except ValueError:  # a hook put something else into it
            found = plain(data)
        return found


class Reward(BaseModel):
    """One reward; it counts `value * weight`. None until its function has given a number."""

    value: float | None
    weight: float = 1.0

    @field_validator("value", "weight")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError(
                f"a reward must be a finite number, got {value}; return a float or raise an error"
            )
        return value


class Span(BaseModel):
    """Begin and end in Unix seconds; `end` is None while it lasts."""

    start: float
    end: float | None = None

    @property
    def seconds(self) -> float:
        """How long it took; 0.0 while it lasts."""
        return 0.0 if self.end is None else self.end - self.start


class Trace(BaseModel):
    """One rollout: its message graph and calls, its scores, and how it ended.

    The graph is written on the engine loop's thread only and may be read from any other while it grows. What a
    method returns is a snapshot. `model_dump`, `model_dump_json` and `model_validate` are exact, tokens included.
    """

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True, arbitrary_types_allowed=True)

    id: str = Field(default_factory=lambda: uuid4().hex)
    task: TaskInfo = Field(default_factory=TaskInfo)
    episode_id: str | None = None
    group_id: str | None = None
    """Rollouts of one task that are compared with each other."""
    agent: str = "agent"
    """Role in the episode."""
    rollout: int = 0
    """Sample index of the task, from 0."""
    answer: str | None = None
    """What the harness returned as its final answer, if it did; `last_reply` is this text then."""
    rewards: dict[str, Reward] = {}
    metrics: dict[str, float | None] = {}
    judge_calls: list[JudgeCall] = []
    """What judges were asked and said, in order; apart from the graph and from `usage`."""
    info: dict[str, Any] = {}
    """Free for hooks and harness. A record of it is JSON: what has no JSON form is kept as its repr."""
    errors: list[ErrorInfo] = []
    """All that went wrong, mended or not."""
    ok: bool | None = None
    """Stamp of the finished rollout: it may be trusted and trained on. None before the end."""
    stop_condition: str | None = None
    """Name of the stop that ended it."""
    end_state: str | None = None
    """`completed`, `stopped`, `error`, `cancelled` or `dropped`; None while it runs."""
    dropped: str | None = None
    """Why it does not count, if somebody dropped it."""
    timing: dict[str, Span] = {}
    """By stage: boot, setup, agent, finalize, scoring."""
    tags: list[str] = []
    notes: list[str] = []
    labels: dict[str, bool | int | float | str] = {}
    """What a reader found out about it, by name; `Run.calibrate` holds scores against them."""
    attempts: list[dict[str, Any]] = []
    """Superseded attempts: id and errors."""
    _on_mark: Callable[[str, str], None] | None = PrivateAttr(default=None)
    _dag: MessageGraph = PrivateAttr(default_factory=MessageGraph)
    _state: Any = PrivateAttr(default=None)

    # The graph

    @property
    def dag(self) -> MessageGraph:
        """The message graph."""
        return self.__pydantic_private__["_dag"]  # type: ignore[index, no-any-return]  # 20 times as fast as `_dag`

    @property
    def state(self) -> Any:
        """What tools and task share during the rollout (a `vf.State`); not part of a dump."""
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = value

    @property
    def nodes(self) -> NodeList:
        """The messages in order of creation, each once."""
        return NodeList(self.dag)

    @property
    def calls(self) -> list[ModelCall]:
        """The model calls in order, as copies: writing on them changes nothing."""
        return self.dag.copied_calls()

    @property
    def branches(self) -> list[Branch]:
        """The root-to-leaf lines, oldest first."""
        tips = list(self.dag.tips.items())
        return [Branch(self.dag, index, start, leaf) for index, (start, leaf) in enumerate(tips)]

    @property
    def links(self) -> list[Link]:
        """What joins the branches beyond ancestry: summaries, tasks of subagents and their answers."""
        from vfnb.trace.links import links

        return links(self.dag)

    @property
    def main(self) -> Branch | None:
        """The main line: the branch of the last delivered reply, else the first one; None if empty."""
        branches = self.branches
        call = self._main_call()
        if call is None or call.reply_node is None:
            return branches[0] if branches else None
        got = call.reply_node if call.shown_node is None else call.shown_node
        start = self.dag.nodes[got].branch
        return next(branch for branch in branches if branch.id == start)

    @property
    def messages(self) -> Messages:
        """The messages of the main line."""
        line = self.dag.line()
        if line is not None:
            return line
        main = self.main
        return main.messages if main is not None else []

    @property
    def last_reply(self) -> str:
        """The harness's final answer, else the text of the last reply that it got; `""` if there is none."""
        if self.answer is not None:
            return self.answer
        call = self._main_call()
        if call is None or call.reply_node is None:
            return ""
        got = call.reply_node if call.shown_node is None else call.shown_node
        return self.dag.nodes[got].message.text

    def _main_call(self) -> ModelCall | None:
        """The last delivered call with a reply; one that was declared a side matter only if there is no other."""
        calls = self.dag.calls
        aside = None
        for index in range(len(calls) - 1, -1, -1):
            call = calls[index]
            if call.reply_node is None or not call.delivered:
                continue
            if not call.markers or not self._aside(call):
                return call
            aside = aside or call
        return aside

    def _aside(self, call: ModelCall) -> bool:
        main = self.dag.calls[0].markers.get("agent")
        kind = call.markers.get("kind")
        return kind in ("compaction", "side_call", "subagent") or call.markers.get("agent") != main

    @property
    def rewrites(self) -> list[Rewritten]:
        """What intercepts changed, in the order of the calls: each message before and after."""
        return rewrites(self.dag)

    # Numbers

    @property
    def reward(self) -> float | None:
        """Sum of `value * weight`; None if not scored, failed or dropped; 0.0 if a stop skipped scoring."""
        if self.end_state in ("error", "dropped", "cancelled") or self.dropped is not None:
            return None
        if self.info.get("scoring_skipped") and not self.rewards:
            return 0.0
        values = [reward.value for reward in self.rewards.values()]
        if not values or None in values:
            return None
        return math.fsum(one.value * one.weight for one in self.rewards.values() if one.value is not None)

    @property
    def num_turns(self) -> int:
        """Calls with a complete reply."""
        return self.dag.counters.turns

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all calls; `cost` is None if no call has one."""
        counters = self.dag.counters
        return Usage(
            prompt_tokens=counters.prompt_tokens,
            completion_tokens=counters.completion_tokens,
            cached_tokens=counters.cached_tokens,
            reasoning_tokens=counters.reasoning_tokens,
            cost=counters.cost if counters.priced else None,
        )

    @property
    def judge_usage(self) -> Usage:
        """Tokens and cost of the judges; `cost` is None if no call has one."""
        used = [call.usage for call in self.judge_calls if call.usage is not None]
        costs = [usage.cost for usage in used if usage.cost is not None]
        return Usage(
            prompt_tokens=sum(usage.prompt_tokens for usage in used),
            completion_tokens=sum(usage.completion_tokens for usage in used),
            cached_tokens=sum(usage.cached_tokens for usage in used),
            reasoning_tokens=sum(usage.reasoning_tokens for usage in used),
            cost=math.fsum(costs) if costs else None,
        )

    @property
    def is_completed(self) -> bool:
        """It came to a regular end: by itself or by a stop."""
        return self.end_state in ("completed", "stopped")

    @property
    def is_truncated(self) -> bool:
        """A limit ended it, or its last reply hit the token limit."""
        call = self._main_call()
        return self.stop_condition in LIMIT_STOPS or (call is not None and call.finish_reason == "length")

    @property
    def has_error(self) -> bool:
        """It ended in an error."""
        return self.end_state == "error"

    # Marking, samples

    def tool_name(self, call: str | ToolCall) -> str:
        """The task's name of a tool that the program calls by a name of its own (`mcp__desk__add`), or that name.

        Give the whole call where names alone say too little: Codex has `add` in the namespace `mcp__desk`.
        """
        name = call if isinstance(call, str) else "__".join(filter(None, (call.namespace, call.name)))
        program = self.info.get("program")
        names = program.get("tools") if isinstance(program, Mapping) else None
        return str(names.get(name, name)) if isinstance(names, Mapping) else name

    def tag(self, label: str) -> None:
        """Put a label on it, once; stored at once if the trace came from a run."""
        if label not in self.tags:
            self.tags.append(label)
            self._mark("tag", label)

    def note(self, text: str) -> None:
        """Write a remark on it; stored at once if the trace came from a run."""
        self.notes.append(text)
        self._mark("note", text)

    def label(self, name: str, value: LabelValue | None = True) -> None:
        """Say what is true of it; stored at once if the trace came from a run, where frames have it as a column.

        Args:
            name: letters, digits, underscores.
            value: a truth value, a number or a text; the last one given counts, None takes the label away.

        Raises:
            TraceError: one of them cannot be.
        """
        checked_label(name, value)
        if value is None:
            self.labels.pop(name, None)
        else:
            self.labels[name] = value
        self._mark("label", label_text(name, value))

    def on_mark(self, store: Callable[[str, str], None]) -> None:
        """Have tags, notes and labels stored: `store(kind, text)` with the kind `tag`, `note` or `label`."""
        self._on_mark = store

    def _mark(self, kind: str, text: str) -> None:
        if self._on_mark is not None:
            self._on_mark(kind, text)

    def samples(self, *, unused_compactions: bool = False) -> list[Sample]:
        """One training sample per branch that owns sampled tokens; none without tokens.

        Args:
            unused_compactions: include declared compaction attempts whose summary was not used.
        """
        from vfnb.trace.samples import samples

        made = samples(self.dag, unused_compactions=unused_compactions)
        reward = self.reward
        for sample in made:
            sample.trace_id, sample.episode_id, sample.group_id = self.id, self.episode_id, self.group_id
            sample.task_key, sample.reward = self.task.key, reward
        return made

    def verify_tokens(self, engine: Any) -> Any:
        """Score the stored tokens again and report the largest gap to the log-probabilities on record.

        Args:
            engine: a token engine with the weights that sampled, e.g. `vf.VLLM(...)`; see `docs/tokens.md`.

        Returns:
            A `TokenCheck` with `gap` (nats), `checked`, `tokens`, `calls` and `frame()`.
        """
        return late("Trace.verify_tokens", self, engine)

    def release(self) -> None:
        """Free what can be made again from the records. For traces that are finished and kept."""
        self.dag.release()

    # Reaching up

    def graph(self, collapse: str = "none") -> Any:
        """The messages as a `networkx.DiGraph`; its attributes are in `docs/figures.md`.

        Args:
            collapse: `none` for a node per message, `turns` for one per turn, `branches` for one per stretch on
                which nothing branches.
        """
        return late("Trace.graph", self, collapse)

    def plot(self, kind: str = "tree", *, x: str | None = None, color: str = "role") -> Any:
        """A figure of the branches, `.figure` of which is a `plotly` figure (`docs/figures.md`).

        Args:
            kind: `tree` or `timeline`.
            x: of a timeline: `tokens` (the default where they are known), `seconds` or `turns`.
            color: of a timeline: `role`, `cause` or `logprob`.

        Raises:
            ConfigError: another value, or the trace has no such numbers.
        """
        return late("Trace.plot", self, kind, x=x, color=color)

    def view(self) -> Any:
        """A view to click in: the message graph beside the conversation (`docs/views.md`)."""
        return late("Trace.view", self)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        return late("Trace.bundle", self)

    def __repr__(self) -> str:
        dag = self.dag
        parts = [f"{len(dag.nodes)} messages", f"{dag.counters.turns} turns"]
        if len(dag.tips) > 1:
            parts.append(f"{len(dag.tips)} branches")
        if self.reward is not None:
            parts.append(f"reward {self.reward:.3g}")
        end = self.end_state or "running"
        if end == "stopped" and self.stop_condition:
            end = f"stopped({self.stop_condition})"
        name = str(self.task.name or self.task.key or self.task.idx)
        name = name if name.isprintable() else ascii(name)
        return f"Trace({self.id[:8]}, task {name}: {', '.join(parts)}, {end})"

    __str__ = __repr__

    # Records

    def header(self) -> dict[str, Any]:
        """The fields without the graph, as JSON values."""
        from vfnb.trace.dump import header

        return header(self)

    @classmethod
    def from_header(cls, header: Mapping[str, Any], graph: MessageGraph) -> Trace:
        """A trace from its fields and its graph; keys of a newer writer are ignored."""
        trace: Trace = cls.__pydantic_validator__.validate_python(dict(header))
        trace._dag = graph
        return trace

    def model_dump_json(self, **options: Any) -> str:
        """As pydantic's. Lone surrogates become escapes, and what nests deeper than 100 levels is cut there."""
        try:
            return super().model_dump_json(**options)
        except PydanticSerializationError:
            names = ("indent", "ensure_ascii")
            layout = {name: options.pop(name) for name in names if name in options}
            try:
                values = self.model_dump(mode="json", **options)
            except ValueError:  # nested more deeply than pydantic writes
                values = plain(self.model_dump(**options))
            spaces = (",", ":") if layout.get("indent") is None else None
            return json.dumps(values, separators=spaces, **layout | {"ensure_ascii": True})

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Trace:
        """As pydantic's, with lone surrogates in escapes allowed."""
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            if error.errors()[0]["type"] != "json_invalid":
                raise
            try:
                values = json.loads(json_data)
            except ValueError:
                raise error from None
            return cls.model_validate(values, **options)

    @field_serializer("info", when_used="json")
    def _plain_info(self, info: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = plain(info)
        return found

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        from vfnb.trace.dump import dump_graph

        plain: dict[str, Any] = handler(self)
        if isinstance(info.context, dict) and info.context.get("graph") is False:
            return plain
        include, exclude = info.include, info.exclude
        return plain | {
            key: value
            for key, value in dump_graph(self.dag).items()
            if (include is None or key in include) and (exclude is None or key not in exclude)
        }

    @model_validator(mode="wrap")
    @classmethod
    def _load(cls, data: Any, handler: ModelWrapValidatorHandler[Trace]) -> Trace:
        from vfnb.trace.dump import load_graph

        if not isinstance(data, Mapping) or "nodes" not in data:
            return handler(data)
        graph = load_graph(data)
        trace = handler(dict(data))
        trace._dag = graph
        return trace

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        from vfnb.trace.dump import graph_schema

        inner = core_schema
        while inner.get("type") in ("function-wrap", "function-before", "function-after"):
            inner = inner["schema"]
        plain = {key: value for key, value in inner.items() if key != "serialization"}
        schema = handler.resolve_ref_schema(handler(plain))
        schema["properties"] = {**schema.get("properties", {}), **graph_schema()}
        return schema
