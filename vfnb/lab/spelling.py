"""What token ids say: the text of each token, whatever the tokenizer's kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vfnb.errors import ConfigError

__all__ = ["Spelling", "tokenizer_of"]

_HALF = "\ufffd"  # what a tokenizer shows for bytes that are no whole character
_LONGEST = 4  # bytes of a character, so the most tokens that one can lie on


def tokenizer_of(source: Any) -> Any:
    """The tokenizer of an engine, of a token client or of a model folder; a tokenizer itself.

    Raises:
        ConfigError: it is none of these.
        MissingExtra: a folder was given and the tokenizers package is not installed.
    """
    if isinstance(source, str | Path):
        from vfnb.clients.engines.tokenizer import load_tokenizer

        return load_tokenizer(Path(source))
    source = getattr(source, "engine", source)
    if not hasattr(source, "decode") and callable(getattr(source, "tokenizer", None)):
        source = source.tokenizer()
    if not callable(getattr(source, "decode", None)):
        raise ConfigError(
            f"{type(source).__name__} is no tokenizer; give one with decode(ids), an engine such as vf.Embedded(), "
            "or a model folder"
        )
    return source


class Spelling:
    """Texts of token ids by one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, str] = {}
        self._added = _added(tokenizer)
        self._special: dict[int, bool] = {}

    @property
    def name(self) -> str:
        """The tokenizer's name, its class if it has none."""
        name = getattr(self._tokenizer, "name_or_path", None) or type(self._tokenizer).__name__
        return Path(str(name)).name

    def texts(self, ids: Sequence[int]) -> list[str]:
        """The text of each token; joined they are the text of all.

        A character that lies on several tokens is the text of the last of them, the others have none.
        """
        alone = [self._alone(one) for one in ids]
        if not any(_HALF in text for text in alone) and "".join(alone) == self._decode(ids):
            return alone
        return self._stepwise(ids)

    def special(self, one: int) -> bool:
        """Whether a token is a mark of the template and no text."""
        if one in self._added:
            return True
        if one not in self._special:
            text = self._alone(one)
            self._special[one] = bool(text) and self._decode([one], skip=True) == ""
        return self._special[one]

    def _alone(self, one: int) -> str:
        text = self._known.get(one)
        if text is None:
            text = self._known[one] = self._decode([one])
        return text

    def _stepwise(self, ids: Sequence[int]) -> list[str]:
        """What each token adds to those before it: tokenizers that join words with spaces need the neighbours."""
        texts: list[str] = []
        before = begin = 0  # ids[before:begin] are context, ids[begin:] are to be told
        for end in range(1, len(ids) + 1):
            known = self._decode(ids[before:begin])
            text = self._decode(ids[before:end])[len(known) :]
            texts.append("")
            if text.endswith(_HALF) and end < len(ids):
                if end - begin < _LONGEST:
                    continue
                end = begin + 1  # the first of them is no part of a character, the others may be
                text = self._decode(ids[before:end])[len(known) :]
            texts[end - 1] = text
            before, begin = begin, end
        return texts

    def _decode(self, ids: Sequence[int], *, skip: bool = False) -> str:
        ids = [int(one) for one in ids]
        try:
            return str(self._tokenizer.decode(ids, skip_special_tokens=skip))
        except TypeError:  # a tokenizer without that argument
            return str(self._tokenizer.decode(ids))


def _added(tokenizer: Any) -> frozenset[int]:
    """Tokens beside the learned vocabulary, where the tokenizer tells."""
    found = getattr(tokenizer, "added_tokens_decoder", None)
    if found is None and callable(getattr(tokenizer, "get_added_tokens_decoder", None)):
        found = tokenizer.get_added_tokens_decoder()
    return frozenset(found or ())
