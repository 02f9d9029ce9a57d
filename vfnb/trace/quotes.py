"""Which of some texts are quoted in others, at the cost of reading each once.

Few texts are looked for directly. Of many, three words from their middle are looked up first: a long text is not
searched once for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["Quotes"]

_WORD = re.compile(r"\w+")
_FEW = 16


class Quotes:
    """Texts to look for; each is looked for once, however often it is given."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(dict.fromkeys(texts))
        self._rare: dict[tuple[str, ...], list[str]] = {}
        self._plain = self._texts
        if len(self._texts) <= _FEW:
            return
        self._plain = []
        for text in self._texts:
            inner = _WORD.findall(text)[1:-1]  # those at its ends may be parts of words where it is quoted
            if not inner:
                self._plain.append(text)
            elif len(inner) < 3:
                self._rare.setdefault((max(inner, key=len),), []).append(text)
            else:
                middle = (len(inner) - 3) // 2
                self._rare.setdefault(tuple(inner[middle : middle + 3]), []).append(text)

    def within(self, text: str) -> list[str]:
        """Those that the text contains."""
        found = [one for one in self._plain if one in text]
        if self._rare:
            words = _WORD.findall(text)
            keys = {*zip(words, words[1:], words[2:], strict=False), *((word,) for word in words)}
            for key in self._rare.keys() & keys:
                found += [one for one in self._rare[key] if one in text]
        return found
