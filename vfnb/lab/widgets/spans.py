"""Which words of two texts differ, for views that show a change inside a message."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

__all__ = ["spans"]

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MOST = 4_000  # words compared one by one, after equal beginnings and ends are set aside


def spans(left: str, right: str) -> list[tuple[str, str]]:
    """The texts as pieces in order: `("same" | "left" | "right", text)`; without the `left` ones it is `right`."""
    a, b = _WORDS.findall(left), _WORDS.findall(right)
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    inner_a, inner_b = a[begin : len(a) - end], b[begin : len(b) - end]
    pieces = [("same", "".join(a[:begin]))]
    if max(len(inner_a), len(inner_b)) > _MOST:
        pieces += [("left", "".join(inner_a)), ("right", "".join(inner_b))]
    else:
        for kind, i, i_end, j, j_end in SequenceMatcher(None, inner_a, inner_b, autojunk=False).get_opcodes():
            if kind == "equal":
                pieces.append(("same", "".join(inner_a[i:i_end])))
            else:
                pieces += [("left", "".join(inner_a[i:i_end])), ("right", "".join(inner_b[j:j_end]))]
    pieces.append(("same", "".join(a[len(a) - end :])))
    return [piece for piece in pieces if piece[1]]
