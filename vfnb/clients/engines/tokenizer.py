"""Tokenizers of model folders, without transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vfnb.errors import ConfigError, MissingExtra

__all__ = ["FileTokenizer", "load_tokenizer"]


class FileTokenizer:
    """A `tokenizer.json` with the methods that renderers use."""

    def __init__(self, folder: Path, inner: Any, settings: dict[str, Any]) -> None:
        inner.encode_special_tokens = True
        self._inner = inner
        self._marked: Any = None
        self.name_or_path = str(folder)
        self.eos_token = _text(settings.get("eos_token"))
        self.eos_token_id: int | None = inner.token_to_id(self.eos_token) if self.eos_token else None
        self.unk_token_id: int | None = None
        template = folder / "chat_template.jinja"
        self.chat_template: str | None = (
            template.read_text() if template.is_file() else settings.get("chat_template")
        )

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Token ids of a text. What looks like a special token in it is text: nobody can forge a turn."""
        ids: list[int] = self._inner.encode(text, add_special_tokens=add_special_tokens).ids
        return ids

    def encode_template(self, text: str) -> list[int]:
        """Token ids of a rendered template: special tokens in it are tokens."""
        if self._marked is None:
            self._marked = type(self._inner).from_str(self._inner.to_str())
            self._marked.encode_special_tokens = False
        ids: list[int] = self._marked.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """The text of token ids."""
        text: str = self._inner.decode(list(token_ids), skip_special_tokens=skip_special_tokens)
        return text

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, or the ids of several; None for what is none."""
        if isinstance(tokens, str):
            return self._inner.token_to_id(tokens)
        return [self._inner.token_to_id(token) for token in tokens]

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        """Tokens beside the learned vocabulary, special ones and others, by their ids."""
        added: dict[int, Any] = self._inner.get_added_tokens_decoder()
        return added

    def __len__(self) -> int:
        return int(self._inner.get_vocab_size())


def load_tokenizer(folder: Path) -> FileTokenizer:
    """The tokenizer of a model folder.

    Raises:
        ConfigError: the folder has no `tokenizer.json`.
        MissingExtra: the tokenizers package is not installed.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtra("a local model needs a tokenizer: pip install 'vfnb[train]'") from error
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise ConfigError(f"{folder} has no tokenizer.json; give a folder as Hugging Face stores a model")
    settings_file = folder / "tokenizer_config.json"
    settings = json.loads(settings_file.read_text()) if settings_file.is_file() else {}
    return FileTokenizer(folder, Tokenizer.from_file(str(file)), settings)


def _text(token: Any) -> str | None:
    return token.get("content") if isinstance(token, dict) else token
