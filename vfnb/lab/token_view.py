"""The tokens of a branch as the model had them: what each one says, where it comes from, how likely it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vfnb.errors import MissingExtra
from vfnb.lab.spelling import Spelling, tokenizer_of

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.trace import Branch

__all__ = ["Piece", "TokenView", "token_view"]

_COLUMNS = ("position", "token_id", "text", "special", "sampled", "mask", "logprob", "node", "role", "call")


@dataclass(frozen=True, slots=True)
class Piece:
    """The tokens of one message, as positions `[begin, end)` of the branch."""

    begin: int
    end: int
    node: int
    role: str
    call: int
    """The call that brought the message."""
    sampled: bool
    """The model said it."""
    owned: bool
    """It belongs to this branch, which trains what was sampled of it."""


class TokenView:
    """The tokens of one branch, or of a part of it: `branch.tokens[100:300]`.

    Arrays are those of the branch; `logprobs` are 0 where nothing was sampled.
    """

    def __init__(self, branch: Branch, begin: int, end: int, tokenizer: Any = None) -> None:
        self.branch = branch
        self.begin, self.end = begin, end
        """Positions in the branch."""
        self._spelling = None if tokenizer is None else Spelling(tokenizer)

    def with_tokenizer(self, tokenizer: Any) -> TokenView:
        """The same with texts.

        Args:
            tokenizer: an object with `decode(ids)`, an engine such as `vf.Embedded()`, or a model folder.

        Raises:
            ConfigError: it is none of these.
        """
        return TokenView(self.branch, self.begin, self.end, tokenizer_of(tokenizer))

    @property
    def tokenizer(self) -> str | None:
        """The name of the tokenizer that the texts are from; None without one."""
        return None if self._spelling is None else self._spelling.name

    def _part(self, array: Any) -> Any:
        return array[self.begin : self.end]

    @property
    def ids(self) -> NDArray[np.int32]:
        """int32[n]."""
        found = self.branch.token_ids
        return self._part(np.zeros(0, np.int32) if found is None else found)  # type: ignore[no-any-return]

    @property
    def logprobs(self) -> NDArray[np.float32]:
        """float32[n]."""
        found = self.branch.logprobs
        return self._part(np.zeros(0, np.float32) if found is None else found)  # type: ignore[no-any-return]

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """bool[n]: the model sampled it."""
        found = self.branch.sampled_mask
        return self._part(np.zeros(0, np.bool_) if found is None else found)  # type: ignore[no-any-return]

    @property
    def mask(self) -> NDArray[np.bool_]:
        """bool[n]: this branch trains it. A sampled token of an older branch is context here."""
        found = self.branch.mask
        return self._part(np.zeros(0, np.bool_) if found is None else found)  # type: ignore[no-any-return]

    @cached_property
    def texts(self) -> list[str] | None:
        """The text of each token; None without a tokenizer.

        A character on several tokens is the text of the last of them, the others have `""`.
        """
        return None if self._spelling is None else self._spelling.texts(self.ids.tolist())

    @cached_property
    def special(self) -> NDArray[np.bool_]:
        """bool[n]: marks of the template and no text; all False without a tokenizer."""
        spelling = self._spelling
        if spelling is None:
            return np.zeros(len(self), np.bool_)
        return np.fromiter(map(spelling.special, self.ids.tolist()), np.bool_, len(self))

    @cached_property
    def pieces(self) -> list[Piece]:
        """The messages that the tokens belong to, in order."""
        nodes = self.branch.graph.nodes
        found, position = [], 0
        for index in self.branch.path:
            node = nodes[index]
            begin, position = position, position + max(0, node.end - node.start)
            if begin < position and begin < self.end and position > self.begin:
                owned = node.branch == self.branch.id
                piece = Piece(begin, position, index, node.message.role, node.call, node.sampled, owned)
                found.append(replace(piece, begin=max(begin, self.begin), end=min(position, self.end)))
        return found

    def frame(self) -> pd.DataFrame:
        """A row per token.

        Returns:
            Columns `position` in the branch, `token_id`, `text` (missing without a tokenizer), `special`,
            `sampled`, `mask` (trained by this branch), `logprob` (missing where not sampled), and the message that
            it belongs to: `node`, `role`, `call`.
        """
        from vfnb.lab.schema import Column
        from vfnb.lab.typed import table

        lengths = [piece.end - piece.begin for piece in self.pieces]
        values: dict[str, Any] = {
            "position": np.arange(self.begin, self.end, dtype=np.int64),
            "token_id": self.ids.astype(np.int64),
            "text": self.texts or [None] * len(self),
            "special": self.special,
            "sampled": self.sampled,
            "mask": self.mask,
            "logprob": np.where(self.sampled, self.logprobs.astype(np.float64), np.nan),
            "node": np.repeat(np.array([piece.node for piece in self.pieces], np.int64), lengths),
            "role": [piece.role for piece, n in zip(self.pieces, lengths, strict=True) for _ in range(n)],
            "call": np.repeat(np.array([piece.call for piece in self.pieces], np.int64), lengths),
        }
        kinds: dict[str, Any] = {
            "text": "text", "role": "text", "logprob": "float",
            "special": "bool", "sampled": "bool", "mask": "bool",
        }  # fmt: skip
        made: pd.DataFrame = table([Column(name, kinds.get(name, "int"), "") for name in _COLUMNS], values)
        return made

    def __len__(self) -> int:
        return self.end - self.begin

    def __getitem__(self, part: slice) -> TokenView:
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TypeError("take a range of tokens: tokens[100:300]; tokens.ids has single ones")
        begin, end, _ = part.indices(len(self))
        made = TokenView(self.branch, self.begin + begin, self.begin + max(begin, end))
        made._spelling = self._spelling
        return made

    def __repr__(self) -> str:
        return f"<{len(self)} tokens of branch {self.branch.id}, {int(self.sampled.sum())} sampled>"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        from vfnb.lab.token_twin import token_bundle

        return token_bundle(self)


def token_view(branch: Branch) -> TokenView:
    """The tokens of a branch, with texts where the tokenizer of its model is known and installed."""
    source = branch.graph.tokenizer
    length = 0 if branch.token_ids is None else len(branch.token_ids)
    try:
        return TokenView(branch, 0, length, None if source is None else source())
    except MissingExtra:  # ids can be shown without it
        return TokenView(branch, 0, length)
