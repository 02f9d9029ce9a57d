"""Tokens as text and html: one part per message, each token a box, sampled ones underlined.

The line under a sampled token grows in width, and changes its colour, with how unlikely the token was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vfnb.lab.html import MUTED, Page, esc
from vfnb.lab.text import MAX_LINES, lines
from vfnb.lab.words import listing, number, one_line

if TYPE_CHECKING:
    from vfnb.lab.token_view import Piece, TokenView

__all__ = ["token_bundle", "token_text"]

WHOLE = 600
"""Tokens that are shown without a gap; of a longer view, each message only in part."""
_PARTS = {True: (30, 15), False: (12, 6)}  # first and last tokens of a message, by whether it was sampled
_MESSAGES = 24  # shown of a long view, a third of them from the start
# Under a sampled token, by its log-probability: width, and colour (Okabe and Ito's, for any colour vision).
_LEVELS = (
    (-0.1, 1, "rgba(0,158,115,0.9)", "p > 0.9"),
    (-0.7, 2, "rgba(86,180,233,0.9)", "p > 0.5"),
    (-2.3, 3, "rgba(230,159,0,0.9)", "p > 0.1"),
    (-math.inf, 5, "rgba(213,94,0,0.9)", "p < 0.1"),
)
_EDGE = "border-left:1px solid rgba(128,128,128,0.3)"
_MARK = "border:1px solid rgba(128,128,128,0.7)"
_TOKENS = (
    "padding:2px 8px;white-space:pre-wrap;overflow-wrap:break-word;font-family:monospace;text-align:left"
)
_GIVEN = "border-bottom:1px solid rgba(128,128,128,0.9)"  # sampled, but trained elsewhere


def _headline(view: TokenView) -> str:
    whole = view.branch.token_ids
    part = (
        ""
        if whole is None or len(view) == len(whole)
        else f" {view.begin:,} to {view.end:,} of {len(whole):,}"
    )
    return f"Tokens{part} of branch {view.branch.id}"


def _facts(view: TokenView) -> str:
    if not len(view):
        return "no tokens: this model was called by text; a token client such as vf.Embedded() records them"
    sampled, mask = view.sampled, view.mask
    older = int(sampled.sum() - mask.sum())
    return listing(
        [
            f"{len(view):,} tokens",
            f"{int(sampled.sum()):,} sampled",
            f"{older:,} of them trained by older branches" if older else "",
            _mean(view, sampled),
            f"tokenizer {one_line(view.tokenizer, 40)}"
            if view.tokenizer
            else "ids only: .with_tokenizer(engine)",
        ]
    )


def _mean(view: TokenView, where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
    if not where.any():
        return ""
    mean = float(view.logprobs[where].mean())
    return f"mean logprob {number(mean)}, perplexity {number(math.exp(-mean))}"


def _source(view: TokenView, piece: Piece) -> str:
    inside = slice(piece.begin - view.begin, piece.end - view.begin)
    where = np.zeros(len(view), np.bool_)
    where[inside] = view.sampled[inside]
    said = int(where.sum())
    return listing(
        [
            f"node {piece.node}",
            f"call {piece.call}",
            f"{piece.end - piece.begin:,} tokens",
            f"{said:,} sampled" if said else "",
            "of an older branch" if not piece.owned else "",
            _mean(view, where),
        ]
    )


# text


def token_text(view: TokenView) -> str:
    """The text twin, at most 20 lines: sizes, then a line per message with its first tokens."""
    head = [_headline(view), _facts(view)]
    pieces = view.pieces
    room = MAX_LINES - len(head) - 1
    shown = pieces if len(pieces) <= room else [*pieces[: room // 3], *pieces[room // 3 - room + 1 :]]
    told = [_line(view, piece) for piece in shown]
    if len(shown) < len(pieces):
        told.insert(room // 3, f"  … {len(shown)} of {len(pieces)} messages shown; .frame() has all tokens")
    key = "node role (* sampled), tokens, mean logprob of the sampled ones: " if told else ""
    return lines(head, [key + ("text" if view.texts is not None else "ids")] if told else [], told)


def _line(view: TokenView, piece: Piece) -> str:
    inside = slice(piece.begin - view.begin, piece.end - view.begin)
    sampled = view.sampled[inside]
    mean = number(float(view.logprobs[inside][sampled].mean())) if sampled.any() else "-"
    role = piece.role + ("*" if piece.sampled else "")
    texts = view.texts
    said = "".join(texts[inside]) if texts is not None else " ".join(map(str, view.ids[inside][:30].tolist()))
    front = f"  {piece.node:>4} {role:<10} {piece.end - piece.begin:>5} {mean:>7}  "
    return front + one_line(said.replace("\n", "⏎"), 110 - len(front))


# html


def token_bundle(view: TokenView) -> dict[str, str]:
    """Text and html."""
    page = Page("tokens")
    page.add(f"<div><b>{esc(_headline(view))}</b> · {esc(_facts(view))}</div>")
    if len(view):
        page.add(_key(view))
    pieces = view.pieces
    whole = len(view) <= WHOLE
    third = _MESSAGES // 3
    gap = range(third, len(pieces) - _MESSAGES + third) if not whole else range(0)
    for place, piece in enumerate(pieces):
        if place in gap:
            if place == gap[0]:
                first, last = pieces[gap[0]].begin - view.begin, pieces[gap[-1]].end - view.begin
                told = f"… {len(gap)} of {len(pieces)} messages not shown; tokens[{first}:{last}] has them"
                page.add(f'<div style="{MUTED}">{esc(told)}</div>')
            continue
        page.add(_block(view, piece, whole))
    return {"text/plain": token_text(view), "text/html": page.close("tokens.frame()")}


def _key(view: TokenView) -> str:
    """What the marks mean."""
    parts = [
        f'<span style="border-bottom:{width}px solid {color}">{esc(words)}</span>'
        for _, width, color, words in _LEVELS
    ]
    if int(view.sampled.sum()) > int(view.mask.sum()):
        parts.append(f'<span style="{_GIVEN}">trained by an older branch</span>')
    if view.special.any():
        parts.append(f'<span style="{_MARK}">special token</span>')
    joined = " ".join(parts)
    return f'<div style="{MUTED}">sampled, by the width of the line: {joined}; without a line: context</div>'


def _block(view: TokenView, piece: Piece, whole: bool) -> str:
    role = f"{piece.role} (sampled)" if piece.sampled else piece.role
    head = f'<div><b>{esc(role)}</b> <span style="{MUTED}">{esc(_source(view, piece))}</span></div>'
    return f'{head}<div style="{_TOKENS}">{"".join(_tokens(view, piece, whole))}</div>'


def _tokens(view: TokenView, piece: Piece, whole: bool) -> Iterator[str]:
    begin, end = piece.begin - view.begin, piece.end - view.begin
    first, last = _PARTS[piece.sampled]
    if whole or end - begin <= first + last:
        yield from (_token(view, place) for place in range(begin, end))
        return
    yield from (_token(view, place) for place in range(begin, begin + first))
    told = f" … {end - begin - first - last:,} tokens; tokens[{begin + first}:{end - last}] has them … "
    yield f'<span style="{MUTED}">{esc(told)}</span>'
    yield from (_token(view, place) for place in range(end - last, end))


def _token(view: TokenView, place: int) -> str:
    style, title = _look(view, place)
    token = int(view.ids[place])
    texts = view.texts
    # part of a character, whose last token has it, is a hollow place
    body = f"{token} " if texts is None else esc(texts[place]).replace("\n", "⏎<br>") or "◌"
    return f'<span style="{style}" title="{view.begin + place}: {token}{title}">{body}</span>'


def _look(view: TokenView, place: int) -> tuple[str, str]:
    """The style of a token, and what its hover text adds."""
    base = _MARK if view.special[place] else _EDGE
    if not view.sampled[place]:
        return base, ""
    logprob = float(view.logprobs[place])
    if not view.mask[place]:
        return f"{base};{_GIVEN}", f" · logprob {logprob:.3g}, trained elsewhere"
    width, color = next(
        (width, color) for limit, width, color, _ in _LEVELS if logprob > limit or limit == -math.inf
    )
    return f"{base};border-bottom:{width}px solid {color}", f" · logprob {logprob:.3g}"
