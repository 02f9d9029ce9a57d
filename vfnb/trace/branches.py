"""Branches: the root-to-leaf lines of the graph, each the owner of the nodes that it reached first."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from vfnb.types import Messages

if TYPE_CHECKING:
    from vfnb.lab.token_view import TokenView
    from vfnb.trace.calls import ModelCall
    from vfnb.trace.causes import Fork
    from vfnb.trace.graph import MessageGraph

__all__ = ["Branch"]


class Branch:
    """One line of messages from a root to a leaf, as it stood when it was asked for.

    A branch is named by its first own node (`id`), which stays the same while it grows. It owns the nodes from
    there to its leaf; those before belong to older branches and are context here.
    """

    def __init__(self, graph: MessageGraph, index: int, start: int, leaf: int) -> None:
        self.graph = graph
        self.index = index
        """Position among the branches of the trace, oldest first."""
        self.id = start
        self.leaf = leaf

    @cached_property
    def path(self) -> list[int]:
        """Node numbers from the root to the leaf."""
        return self.graph.path(self.leaf)

    @property
    def shared(self) -> int:
        """How many leading messages belong to older branches."""
        return self.graph.nodes[self.id].depth

    @property
    def own(self) -> list[int]:
        """The nodes that this branch owns."""
        return self.path[self.shared :]

    @property
    def messages(self) -> Messages:
        """The messages from the root to the leaf."""
        nodes = self.graph.nodes
        return [nodes[index].message for index in self.path]

    @property
    def cause(self) -> Fork | None:
        """Why it left the older branches; None for the first branch."""
        from vfnb.trace.causes import fork

        return fork(self.graph, self.id)

    @property
    def calls(self) -> list[ModelCall]:
        """The calls that this branch owns, in order: those whose prompt or reply ends in one of its own nodes."""
        own = set(self.own)
        first = self.graph.nodes[self.id].call
        return [
            call
            for call in self.graph.copied_calls()[first:]
            if (call.prompt_node if call.reply_node is None else call.reply_node) in own
        ]

    @property
    def dropped_reasoning(self) -> bool:
        """The harness sent an earlier reply back without its reasoning."""
        return any(call.dropped_reasoning for call in self.calls)

    # Tokens

    @property
    def tokens(self) -> TokenView:
        """The tokens to look at: text and log-probability of each, which are trained; `.frame()` is the table."""
        from vfnb._late import late

        view: TokenView = late("Branch.tokens", self)
        return view

    @cached_property
    def runs(self) -> list[tuple[int, int, bool]]:
        """The branch's tokens as ranges of the columns, `(begin, end, owned)`, neighbours joined."""
        runs: list[tuple[int, int, bool]] = []
        nodes = self.graph.nodes
        first, last, mine = 0, 0, False
        for node in map(nodes.__getitem__, self.path):
            if node.end <= node.start:
                continue
            owned = node.branch == self.id
            if node.start == last and owned is mine:
                last = node.end
                continue
            if first < last:
                runs.append((first, last, mine))
            first, last, mine = node.start, node.end, owned
        if first < last:
            runs.append((first, last, mine))
        return runs

    def _joined(self, name: str) -> Any:
        columns = self.graph.columns
        if columns is None:
            return None
        import numpy as np

        column = getattr(columns, name)
        pieces = [column[begin:end] for begin, end, _ in self.runs]
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else column[:0]

    @cached_property
    def token_ids(self) -> Any:
        """int32[n]: exactly what the model saw and sampled on this line; None without tokens."""
        return self._joined("ids")

    @cached_property
    def logprobs(self) -> Any:
        """float32[n], 0 where nothing was sampled; None without tokens."""
        return self._joined("logprobs")

    @cached_property
    def sampled_mask(self) -> Any:
        """bool[n], True where the model sampled, whichever branch owns it; None without tokens."""
        return self._joined("mask")

    @cached_property
    def mask(self) -> Any:
        """bool[n], True for the sampled tokens that this branch owns (it trains them); None without tokens."""
        columns = self.graph.columns
        if columns is None:
            return None
        import numpy as np

        runs = self.runs
        if len(runs) == 1 and runs[0][2]:
            return columns.mask[runs[0][0] : runs[0][1]]
        out = np.zeros(sum(end - begin for begin, end, _ in runs), np.bool_)
        position = 0
        for begin, end, owned in runs:
            if owned:
                out[position : position + end - begin] = columns.mask[begin:end]
            position += end - begin
        return out

    @cached_property
    def content_mask(self) -> Any:
        """bool[n], True for message text, False for template tokens; None without tokens."""
        columns = self.graph.columns
        if columns is None:
            return None
        import numpy as np

        pieces = [columns.content(begin, end) for begin, end, _ in self.runs]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.bool_)

    @cached_property
    def _experts(self) -> tuple[Any, list[int]]:
        columns, nodes = self.graph.columns, self.graph.nodes
        if columns is None or not any(index in columns.experts for index in self.path):
            return None, []
        import numpy as np

        blocks = [columns.experts[index] for index in self.path if index in columns.experts]
        length = len(self.token_ids)
        out = np.zeros((length, *blocks[0].rows.shape[1:]), blocks[0].rows.dtype)
        known = np.zeros(length, np.bool_)
        for block in blocks:
            end = min(length, block.start + len(block.rows))
            out[block.start : end] = block.rows[: end - block.start]
            known[block.start : end] = True
        missing, position = [], 0
        for index in self.path:
            end = position + nodes[index].end - nodes[index].start
            # an engine has no routing for the very last token, which it never fed back
            last = end if index != self.leaf else end - 1
            if not known[position:last].all():
                missing.append(index)
            position = end
        return out, missing

    @property
    def routed_experts(self) -> Any:
        """[n, layers, top_k], 0 where unknown (see `experts_missing`); None if no call of the branch has any."""
        return self._experts[0]

    @property
    def experts_missing(self) -> list[int]:
        """Nodes of which some token has no routed experts, if others of the branch have."""
        return self._experts[1]

    @cached_property
    def kept_tokens(self) -> Any:
        """(int32[k], int32[n]): what top_k, top_p and min_p left of the vocabulary for each sampled token, and how
        many per token of the branch (0 where not known); None if no call of the branch has any.
        """
        columns, nodes = self.graph.columns, self.graph.nodes
        if columns is None or not any(index in columns.kept for index in self.path):
            return None
        import numpy as np

        ids, counts = [], np.zeros(len(self.token_ids), np.int32)
        for index in self.path:
            if index in columns.kept:
                kept = columns.kept[index]
                counts[nodes[index].total - len(kept.counts) : nodes[index].total] = kept.counts
                ids.append(kept.ids)
        return np.concatenate(ids), counts

    @property
    def media(self) -> list[tuple[int, int, int]]:
        """Where images and the like stand: `[begin, end)` in the branch's tokens, and the token type."""
        return [place for index in self.path for place in self.graph.media(index)]

    @property
    def token_types(self) -> Any:
        """int8[n]: 0 text, 1 image, 2 video, as `mm_token_type_ids` of Hugging Face; None without media."""
        media = self.media
        if not media:
            return None
        import numpy as np

        types = np.zeros(len(self.token_ids), np.int8)
        for begin, end, kind in media:
            types[begin:end] = kind
        return types

    def __len__(self) -> int:
        return len(self.path)

    def __repr__(self) -> str:
        why = self.cause
        return f"Branch({self.index}: {len(self)} messages, {why.cause if why else 'first'})"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        from vfnb._late import late

        return late("Branch.bundle", self)
