"""Write the tables of keys in docs/configuration.md from the config models."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from vfnb.cli.help import settings
from vfnb.runs.tree import EvalConfig
from vfnb.runtimes import SubprocessConfig

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
START, END = "<!-- keys, written by scripts/config_keys.py -->", "<!-- end of keys -->"


def table(model: type[BaseModel], prefix: str = "") -> str:
    """A model's settings as a Markdown table."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, kind, default, text in settings(model, prefix):
        value = kind.lower().replace("|", ", ") or "true or false"
        rows.append(f"| `{key}` | {value} | {f'`{default}`' if default else ''} | {text} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with the tables of today."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    keys = (
        f'{table(EvalConfig)}\n\nWith `runtime.type = "subprocess"`:\n\n{table(SubprocessConfig, "runtime")}'
    )
    return f"{head}{START}\n\n{keys}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
