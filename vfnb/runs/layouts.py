"""The layouts in which a config may be written, brought to one.

`[taskset]` and `[harness]` at the top, or `[env.taskset]` and `[env.agent.harness]`; a name in place of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vfnb.errors import ConfigError

__all__ = ["AGENT", "ALIASES", "SHORT", "Keys", "canonical", "foreign", "in_layout", "leaves", "normal"]

Keys = tuple[str, ...]

AGENT = ("harness", "model", "sampling", "runtime", "limits", "timeouts", "scoring", "retries")
"""What stands under `env.agent` in the nested layout."""
ALIASES: dict[Keys, Keys] = {
    ("env", "taskset"): ("taskset",),
    **{("env", "agent", name): (name,) for name in AGENT},
    ("n",): ("select", "limit"),
}
"""Other spellings of a table or key, with the one that the models have."""
SHORT = {"model": "name", "taskset": "id", "harness": "id", "runtime": "type"}
"""Tables in whose place a text may stand, with the key that it then means."""
_ELSEWHERE: dict[Keys, str] = {
    ("serve",): "there is no environment server to configure; a run works in its own process. Remove it",
    ("client",): "write base_url, api_key_var and headers under [model]",
    ("env", "id"): "an episode is one agent's run here; remove it",
    ("num_tasks",): "write n for how many to run, or taskset.num_tasks if the taskset has such a setting",
    ("num_rollouts",): "write rollouts",
    ("max_concurrent",): "write concurrency",
}
"""Keys of other programs' configs, with what to do."""


def foreign(keys: Keys) -> str | None:
    """What to do about a key that other programs have, None for any other key."""
    found = (advice for known, advice in _ELSEWHERE.items() if keys[: len(known)] == known)
    return next(found, None)


def canonical(keys: Keys) -> Keys:
    """The keys as the models have them."""
    for spelled, known in ALIASES.items():
        if keys[: len(spelled)] == spelled:
            return known + keys[len(spelled) :]
    return keys


def in_layout(known: str, like: Keys) -> str:
    """A dotted key of the models in the layout of another key."""
    if like[:1] == ("env",):
        for spelled, table in ALIASES.items():
            if spelled[0] == "env" and tuple(known.split("."))[: len(table)] == table:
                return ".".join((*spelled, *known.split(".")[len(table) :]))
    return known


def leaves(data: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Every value that is no table, and every empty table, with its keys."""
    for key, value in data.items():
        keys = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, keys)
        else:
            yield keys, value


def normal(data: Mapping[str, Any], name: str) -> dict[Keys, tuple[Keys, Any]]:
    """One layer's values by the models' keys, each with the keys as written.

    Args:
        data: nested tables in any layout. The text `"null"` means no value, which TOML cannot say.
        name: what messages call the layer, with `: ` at its end; `""` for none.

    Raises:
        ConfigError: two layouts for one table, two spellings of one key, or a key of another program.
    """
    found: dict[Keys, tuple[Keys, Any]] = {}
    spelling: dict[str, Keys] = {}
    for written, value in leaves(data):
        if advice := foreign(written):
            raise ConfigError(f"{name}{'.'.join(written)}: {advice}")
        keys = canonical(written)
        if (
            len(keys) == 1
            and keys[0] in SHORT
            and isinstance(value, str)
            and (value != "null" or keys == ("harness",))
        ):
            keys = (*keys, SHORT[keys[0]])
        before = found[keys][0] if keys in found else spelling.setdefault(keys[0], written)
        if keys in found or (before[0] == "env") != (written[0] == "env"):
            raise ConfigError(
                f"{name}{'.'.join(before)} and {'.'.join(written)} are two ways to write "
                f"{'one setting' if keys in found else f'the table [{keys[0]}]'}; keep one of them"
            )
        if keys == ("harness", "id"):  # a harness has the name null
            found[keys] = (written, "null" if value is None else value)
        else:
            found[keys] = (written, None if value == "null" else value)
    return found
