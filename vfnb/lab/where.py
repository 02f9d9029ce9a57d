"""`where=` of frames: one SQL condition over documented columns, and nothing else."""

from __future__ import annotations

import re
from typing import NamedTuple

from vfnb.errors import ConfigError
from vfnb.lab.schema import nearest

__all__ = ["Condition", "parse"]

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^']|'')*')
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z_]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>\|\||<=|>=|<>|!=|==|[=<>+*/%(),-])
    )""",
    re.VERBOSE,
)
_WORDS = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "GLOB", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END"}
    | {"ESCAPE", "TRUE", "FALSE", "ISNULL", "NOTNULL", "COLLATE", "NOCASE"}
)
_FUNCTIONS = frozenset(
    {"abs", "coalesce", "ifnull", "iif", "instr", "length", "lower", "max", "min", "nullif", "round"}
    | {"substr", "trim", "upper"}
)


class Condition(NamedTuple):
    """A checked condition. `parts` are joined by AND; each has its text and the columns it uses."""

    sql: str
    parts: tuple[tuple[str, frozenset[str]], ...]


def parse(text: str, columns: list[str]) -> Condition:
    """Check a condition.

    Only columns, literals, comparison, arithmetic and a few functions may stand in it; no statement can.

    Raises:
        ConfigError: it names an unknown column, or something that is not part of a condition.
    """
    if not isinstance(text, str):
        raise ConfigError(f'where= takes text such as "reward < 0.5 AND turns > 3", got {text!r:.200}')
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConfigError(f"where={text!r}: {_unexpected(text[at:].lstrip())}")
        kind = str(found.lastgroup)
        tokens.append((kind, found.group(kind)))
        at = found.end()
    if not tokens:
        raise ConfigError("where= is empty; leave it out to get all rows")
    for index, (kind, word) in enumerate(tokens):
        if kind == "name":
            call = index + 1 < len(tokens) and tokens[index + 1][1] == "("
            tokens[index] = (_name(text, word, columns, call), word)
    _balance(text, [word for _, word in tokens])
    return Condition(_join(tokens), tuple(_split(tokens)))


def _unexpected(rest: str) -> str:
    if rest.startswith('"'):
        return "text goes into single quotes ('...'), column names into none"
    if rest.startswith("'"):
        return "a text has no closing quote"
    return f"{rest[:12]!r} cannot stand in a condition"


def _name(text: str, word: str, columns: list[str], call: bool) -> str:
    """What a word is: `word` of the language, `function`, or `column`."""
    if word in columns and not call:
        return "column"
    if word.upper() in _WORDS:
        return "word"
    if call and word.lower() in _FUNCTIONS:
        return "function"
    if call:
        raise ConfigError(f"where={text!r}: no function {word!r}; {nearest(word, sorted(_FUNCTIONS))}")
    raise ConfigError(f"where={text!r}: no column {word!r}; {nearest(word, columns)}")


def _balance(text: str, words: list[str]) -> None:
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth < 0:
            break
    if depth:
        raise ConfigError(f"where={text!r}: the brackets do not match")


def _join(tokens: list[tuple[str, str]]) -> str:
    return " ".join(f'"{word}"' if kind == "column" else word for kind, word in tokens)


def _split(tokens: list[tuple[str, str]]) -> list[tuple[str, frozenset[str]]]:
    """The conjuncts. An AND inside brackets, CASE or BETWEEN joins nothing; with an OR there is one."""
    parts: list[list[tuple[str, str]]] = [[]]
    depth = between = 0
    for kind, word in tokens:
        upper = word.upper() if kind == "word" else word
        if upper in ("(", "CASE"):
            depth += 1
        elif upper in (")", "END"):
            depth -= 1
        elif depth == 0 and upper == "OR":
            parts = [tokens]
            break
        elif depth == 0 and upper == "BETWEEN":
            between += 1
        elif depth == 0 and upper == "AND":
            if between == 0:
                parts.append([])
                continue
            between -= 1
        parts[-1].append((kind, word))
    return [(_join(part), frozenset(word for kind, word in part if kind == "column")) for part in parts]
